import { useEffect, useRef, useState } from 'preact/hooks'
import type { OwnerRow, ServerAction, ServerDetail } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { Drawer } from '../parts/drawer.tsx'
import { Facts } from '../parts/facts.tsx'
import { count, duration, until } from '../parts/format.ts'
import { Log } from '../parts/log.tsx'
import { Empty, Loading, State } from '../parts/status.tsx'
import { SwitchButton } from '../parts/switch-button.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt, owners, tell } from '../state.ts'

const columns: readonly Column<OwnerRow>[] = [
  {
    id: 'name',
    title: 'Name',
    width: 'minmax(10rem, 1fr)',
    cell: ({ id }) => id,
    sort: (a, b) => a.id.localeCompare(b.id),
  },
  {
    id: 'kind',
    title: 'Kind',
    width: '6rem',
    cell: ({ kind, transport }) => (kind === 'server' && transport ? transport : kind),
  },
  {
    id: 'state',
    title: 'State',
    width: '9rem',
    cell: (row) => <State value={stateOf(row)} />,
    sort: (a, b) => a.state.localeCompare(b.state),
  },
  {
    id: 'tools',
    title: 'Tools',
    width: '5rem',
    end: true,
    cell: ({ tools }) => count(tools),
    sort: (a, b) => a.tools - b.tools,
  },
  {
    id: 'tokens',
    title: 'Tokens',
    width: '6rem',
    end: true,
    cell: ({ tokens }) => count(tokens),
    sort: (a, b) => a.tokens - b.tokens,
  },
  {
    id: 'about',
    title: 'About',
    width: 'minmax(12rem, 2fr)',
    cell: (row) => (row.reason ? <span class="reason">{reasonOf(row)}</span> : row.summary),
  },
]

const stateOf = ({ downloading, needsLogin, state }: OwnerRow): string =>
  downloading ? 'downloading' : needsLogin ? 'needs login' : state

/** The reason names a command; here is a button for it. */
const reasonOf = ({ needsLogin, reason }: OwnerRow): string | undefined =>
  needsLogin ? 'The server requires a login. Open it and choose Log in.' : reason

export function Servers() {
  const [opened, setOpened] = useState<string | undefined>()
  const rows = owners.value
  if (!rows) return <Loading what="servers" />
  if (rows.length === 0)
    return (
      <Empty title="No servers and no modules">
        <p>
          Add servers to <code>mcpServers</code> in your configuration file, in the format of your MCP client. Pegboard
          reads the file again when you save it.
        </p>
      </Empty>
    )
  const row = rows.find(({ id }) => id === opened)
  return (
    <>
      <Table label="Servers" rows={rows} columns={columns} keyOf={({ id }) => id} open={({ id }) => setOpened(id)} />
      {row && <Detail key={row.id} row={row} onClose={() => setOpened(undefined)} />}
    </>
  )
}

const WORDS: Readonly<Record<ServerAction, readonly [word: string, done: string]>> = {
  connect: ['Start', 'Started'],
  restart: ['Restart', 'Restarted'],
  disconnect: ['Stop', 'Stopped'],
  login: ['Log in', 'Logged in'],
}

function Detail({ row, onClose }: { readonly row: OwnerRow; onClose(): void }) {
  const { id, server, state, reason, tools, tokens, protocol, version, startMs, nextAttemptAt, actions } = row
  const [detail, again] = useFetched<ServerDetail | null>(
    () =>
      server === undefined || state === 'skipped' ? Promise.resolve(null) : get<ServerDetail>('server', { id: server }),
    [state, reason],
  )
  const [busy, setBusy] = useState<ServerAction | undefined>()
  const { login } = row
  const asked = useRef(false)
  useEffect(() => {
    if (asked.current && login === undefined) tell('done', `Logged in: ${id}`)
    asked.current = login !== undefined && 'url' in login
  }, [login])
  async function act(action: ServerAction): Promise<void> {
    setBusy(action)
    const answer = await attempt(() => post<{ readonly url?: string }>('server', { id: server, action }))
    setBusy(undefined)
    if (answer && answer.url === undefined) tell('done', `${WORDS[action][1]}: ${id}`)
    again()
  }
  return (
    <Drawer title={id} onClose={onClose}>
      <Facts
        rows={[
          [
            'State',
            <>
              <State value={stateOf(row)} />
              {nextAttemptAt !== undefined && state === 'failing' && !row.needsLogin && (
                <span class="hint"> tries again {until(nextAttemptAt)}</span>
              )}
            </>,
          ],
          ['Why', reason && reasonOf(row)],
          ['Costs', `${count(tools)} tools, ${count(tokens)} tokens if all are listed`],
          ['Protocol', protocol && `${protocol}${version ? `, server version ${version}` : ''}`],
          ['Last start', startMs !== undefined && duration(startMs)],
          [row.transport === 'stdio' ? 'Runs' : 'Address', detail?.target && <code>{detail.target}</code>],
          ['May touch', detail?.mayTouch],
          ['Setting', detail?.where && <code>{detail.where}</code>],
        ]}
      />
      {login && (
        <p class="callout" role="status">
          {'error' in login ? (
            `The login failed. ${login.error}`
          ) : (
            <>
              <a href={login.url} target="_blank" rel="noopener noreferrer">
                Open the login page of {id}
              </a>
              . This page notices when you are done.
            </>
          )}
        </p>
      )}
      {state !== 'skipped' && (
        <div class="actions">
          {actions.map((action) => (
            <button
              key={action}
              type="button"
              class={action === 'login' && row.needsLogin ? 'main' : ''}
              disabled={busy !== undefined}
              onClick={() => void act(action)}
            >
              {busy === action ? `${WORDS[action][0]}…` : WORDS[action][0]}
            </button>
          ))}
          <SwitchButton names={[id]} to={state === 'disabled' ? 'enabled' : 'disabled'} />
          <a class="button" href={`#/tools?owner=${encodeURIComponent(id)}`}>
            Show its tools
          </a>
        </div>
      )}
      {(detail?.notes.length ?? 0) > 0 && (
        <section>
          <h3>Notes</h3>
          <ul>
            {detail?.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </section>
      )}
      {detail && row.transport === 'stdio' && (
        <section>
          <h3>Last lines on stderr</h3>
          {detail.stderr.length === 0 ? (
            <p class="hint">The server has written nothing since it started.</p>
          ) : (
            <Log text={detail.stderr.join('\n')} />
          )}
        </section>
      )}
    </Drawer>
  )
}
