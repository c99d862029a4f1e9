import { useEffect, useState } from 'preact/hooks'
import type { LaterRow } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { date, until } from '../parts/format.ts'
import { PlainTable } from '../parts/plain-table.tsx'
import { Empty, Loading } from '../parts/status.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt } from '../state.ts'

const REFRESH_MS = 5_000

export function Later() {
  const [tick, setTick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setTick((now) => now + 1), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  const [rows, again] = useFetched(() => get<readonly LaterRow[]>('later'), [tick])
  if (!rows) return <Loading what="planned work" />
  if (rows.length === 0)
    return (
      <Empty title="Nothing is planned">
        <p>
          Models start background tasks, watchers and schedules with tools. They appear here with their state and their
          next time.
        </p>
      </Empty>
    )
  return (
    <div class="scroll">
      <PlainTable
        caption="Background tasks, watchers and schedules"
        columns={['What', 'Kind', 'User', 'Tool', 'State', 'Next', 'Since']}
        acts
      >
        {rows.map(({ kind, id, what, owner, tool, state, nextAt, at, stoppable }) => (
          <tr key={`${kind} ${id}`}>
            <th scope="row">{what}</th>
            <td>{kind}</td>
            <td>{owner}</td>
            <td>{tool ?? '–'}</td>
            <td>{state}</td>
            <td>{nextAt === undefined ? '–' : until(nextAt)}</td>
            <td>{date(at)}</td>
            <td class="end">
              {stoppable && (
                <button
                  type="button"
                  onClick={() => void attempt(() => post('stop', { kind, id }), `Stopped: ${what}`).then(again)}
                >
                  Stop<span class="unseen"> {what}</span>
                </button>
              )}
            </td>
          </tr>
        ))}
      </PlainTable>
    </div>
  )
}
