import { useState } from 'preact/hooks'
import type { DayRow, TokenRow, TokenUsage } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { count, date, percent } from '../parts/format.ts'
import { PlainTable } from '../parts/plain-table.tsx'
import { Loading } from '../parts/status.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt, clients, overview, version } from '../state.ts'

export function Clients() {
  return (
    <div class="scroll">
      <ConnectedClients />
      <Days />
      <Tokens />
    </div>
  )
}

function ConnectedClients() {
  const rows = clients.value
  return (
    <section class="card">
      <h2>Connected</h2>
      {!rows ? (
        <Loading what="clients" />
      ) : rows.length === 0 ? (
        <p>
          No client listens now. A client that starts Pegboard over stdio has its own process, which is not shown here:
          connect it to the address of this server, {location.origin}/mcp. Clients that only send single requests are
          not listed; their calls are.
        </p>
      ) : (
        <PlainTable
          caption="Connected clients"
          columns={['Client', 'User', 'Profile', 'Protocol', 'Mode', 'Tools listed', 'Calls', 'Tokens', 'Saved']}
          numbers={['Tools listed', 'Calls', 'Tokens', 'Saved']}
        >
          {rows.map(({ id, name, principal, profile, protocol, mode, tools, spent }) => (
            <tr key={id}>
              <th scope="row">{name}</th>
              <td>{principal}</td>
              <td>{profile}</td>
              <td>{protocol}</td>
              <td>{mode}</td>
              <td class="end">{count(tools)}</td>
              <td class="end">{spent ? count(spent.calls) : '–'}</td>
              <td class="end">{spent ? count(spent.tokens) : '–'}</td>
              <td class="end">{spent ? savedOf(spent) : '–'}</td>
            </tr>
          ))}
        </PlainTable>
      )}
    </section>
  )
}

const savedOf = ({ tokens, direct }: TokenUsage): string =>
  direct > 0 ? `${count(direct - tokens)} (${percent(1 - tokens / direct)})` : '–'

const AMOUNTS = ['Calls', 'Failed', 'Tokens', 'Without Pegboard', 'Saved']

function Days() {
  const [rows] = useFetched(() => get<readonly DayRow[]>('usage'), [overview.value?.spent?.calls])
  return (
    <section class="card">
      <h2>Tokens of the last 30 days</h2>
      {!rows ? (
        <Loading what="usage" />
      ) : rows.length === 0 ? (
        <p>Nothing is counted yet.</p>
      ) : (
        <>
          <PlainTable caption="Tokens of the last 30 days" columns={['Day (UTC)', ...AMOUNTS]} numbers={AMOUNTS}>
            {[...rows].reverse().map((row) => (
              <tr key={row.day}>
                <th scope="row">{row.day}</th>
                {[row.calls, row.failures, row.tokens, row.direct].map((value, at) => (
                  <td key={at} class="end">
                    {count(value)}
                  </td>
                ))}
                <td class="end">{savedOf(row)}</td>
              </tr>
            ))}
          </PlainTable>
          <p class="hint">
            Without Pegboard, clients would list every tool and get every result whole. A negative number means that
            searches and failed calls have cost more so far.
          </p>
        </>
      )}
    </section>
  )
}

function Tokens() {
  const [rows, again] = useFetched(() => get<readonly TokenRow[]>('tokens'), [version.value])
  return (
    <section class="card">
      <h2>Bearer tokens</h2>
      {!rows ? (
        <Loading what="tokens" />
      ) : rows.length === 0 ? (
        <p>
          There are none. To give another person or machine access:{' '}
          <code>pegboard token create NAME --tools &quot;github.*&quot; --expires 30d</code>
        </p>
      ) : (
        <PlainTable
          caption="Bearer tokens"
          columns={['Name', 'User', 'May use', 'Tools now', 'Expires']}
          numbers={['Tools now']}
          acts
        >
          {rows.map((row) => (
            <Token key={row.id} row={row} done={again} />
          ))}
        </PlainTable>
      )}
    </section>
  )
}

function Token({ row, done }: { readonly row: TokenRow; done(): void }) {
  const { id, name, principal, profile, roles, limits, tools, expiresAt, expired } = row
  const [asks, setAsks] = useState(false)
  const rights = [
    limits.length > 0 ? limits.join(', ') : 'all tools',
    profile && `profile ${profile}`,
    roles.length > 0 && `roles ${roles.join(', ')}`,
  ]
  return (
    <tr class={expired ? 'muted' : ''}>
      <th scope="row">{name}</th>
      <td>{principal}</td>
      <td>{rights.filter(Boolean).join('; ')}</td>
      <td class="end">{expired ? '–' : count(tools)}</td>
      <td>{expiresAt === undefined ? 'never' : `${expired ? 'expired ' : ''}${date(expiresAt)}`}</td>
      <td class="end">
        {asks ? (
          <>
            <button
              type="button"
              class="danger"
              onClick={() => void attempt(() => post('revoke', { id }), `Revoked: ${name}`).then(done)}
            >
              Revoke {name} now
            </button>{' '}
            <button type="button" class="quiet" onClick={() => setAsks(false)}>
              Keep it
            </button>
          </>
        ) : (
          <button type="button" onClick={() => setAsks(true)}>
            Revoke<span class="unseen"> {name}</span>
          </button>
        )}
      </td>
    </tr>
  )
}
