import { useState } from 'preact/hooks'
import type { AliasRow, MissesAnswer } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { percent, plural } from '../parts/format.ts'
import { PlainTable } from '../parts/plain-table.tsx'
import { Empty, Loading } from '../parts/status.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt, tell } from '../state.ts'

const rank = (value: number): string => (value === 0 ? 'not found' : `place ${value}`)

export function Misses() {
  const [answer] = useFetched(() => get<MissesAnswer>('misses'), [])
  if (!answer) return <Loading what="and measuring the recorded queries" />
  const { recorded, proposals, unused, before, after } = answer
  if (recorded === 0)
    return (
      <Empty title="No misses">
        <p>
          Pegboard records a query here if the model then calls another tool than the first result, or calls none within
          10 minutes. Arguments and secrets are not recorded.
        </p>
      </Empty>
    )
  return (
    <div class="scroll">
      <section class="card">
        <h2>Proposed aliases</h2>
        {proposals.length === 0 ? (
          <p>
            No other word answers one of the {plural(recorded, 'recorded query', 'recorded queries')} better without
            answering another one worse.
          </p>
        ) : (
          <>
            <p>
              The called tool comes first for {percent(before)} of the recorded queries now, and for {percent(after)}{' '}
              with all of these.
            </p>
            <PlainTable caption="Proposed aliases" columns={['Tool', 'Alias', 'Recorded queries']} acts>
              {proposals.map((row) => (
                <Proposal key={`${row.tool} ${row.alias}`} row={row} />
              ))}
            </PlainTable>
          </>
        )}
      </section>
      {unused.length > 0 && (
        <section class="card">
          <h2>No call followed</h2>
          <ul>
            {unused.map(({ query, times }) => (
              <li key={query}>
                {query} <span class="hint">{plural(times, 'time')}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  )
}

function Proposal({ row }: { readonly row: AliasRow }) {
  const { tool, alias, queries, setting } = row
  const [state, setState] = useState<'open' | 'busy' | 'done'>('open')
  async function add(): Promise<void> {
    setState('busy')
    const answer = await attempt(() => post<{ readonly undo?: string }>('alias', { tool, alias }))
    setState(answer ? 'done' : 'open')
    if (answer) tell('done', `Added to the configuration: ${alias}.`, `To take it back: pegboard undo ${answer.undo}`)
  }
  return (
    <tr>
      <th scope="row">{tool}</th>
      <td>{alias}</td>
      <td>
        {queries.map(({ query, before, after }) => (
          <p key={query}>
            {query}{' '}
            <span class="hint">
              {rank(before)}, then {rank(after)}
            </span>
          </p>
        ))}
      </td>
      <td class="end">
        {setting === undefined ? (
          <span class="hint">aliases of a module are in its code</span>
        ) : (
          <button type="button" disabled={state !== 'open'} onClick={() => void add()}>
            {state === 'done' ? 'Added' : 'Add'}
            <span class="unseen"> {alias}</span>
          </button>
        )}
      </td>
    </tr>
  )
}
