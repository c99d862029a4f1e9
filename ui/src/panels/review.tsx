import { useState } from 'preact/hooks'
import type { ReviewServer, ReviewTool } from '../../../src/ui/api-types.ts'
import { get, post } from '../api.ts'
import { plural } from '../parts/format.ts'
import { Empty, Loading } from '../parts/status.tsx'
import { useFetched } from '../parts/use-fetched.ts'
import { attempt, overview, version } from '../state.ts'

const STATES: Readonly<Record<string, string>> = {
  changed: 'changed since it was approved',
  new: 'new',
  flagged: 'blocked by a check',
  ambiguous: 'listed twice with different definitions; calls use the first, which is this one',
  unreadable: 'its stored definition cannot be read; pegboard check reads it again',
  first: 'approved when its server is next used',
}

export function Review() {
  const [servers, again] = useFetched(
    () => get<readonly ReviewServer[]>('review'),
    [version.value, overview.value?.toReview],
  )
  if (!servers) return <Loading what="what waits for approval" />
  const waiting = servers.filter((server) => server.waiting.length > 0)
  const rejected = servers.filter((server) => server.rejected.length > 0)
  return (
    <div class="scroll">
      {waiting.length === 0 && (
        <Empty title="Nothing waits for approval">
          <p>
            When a server changes a tool, or a check finds something in it, Pegboard hides the tool and shows the
            difference here.
          </p>
        </Empty>
      )}
      {waiting.map((server) => (
        <section key={server.id} class="card">
          <h2>
            {server.id}: {plural(server.waiting.length, 'tool')}
          </h2>
          {server.waiting.map((tool) => (
            <WaitingTool key={tool.name} server={server.id} tool={tool} done={again} />
          ))}
        </section>
      ))}
      {rejected.length > 0 && (
        <section class="card">
          <h2>Rejected</h2>
          <ul>
            {rejected.map(({ id, rejected: names }) => (
              <li key={id}>
                {id}: {names.join(', ')}
              </li>
            ))}
          </ul>
          <p class="hint">
            To approve one after all: <code>pegboard review SERVER TOOL --accept</code>
          </p>
        </section>
      )}
    </div>
  )
}

function WaitingTool({ server, tool, done }: { readonly server: string; readonly tool: ReviewTool; done(): void }) {
  const [busy, setBusy] = useState(false)
  async function decide(decision: 'accept' | 'reject'): Promise<void> {
    setBusy(true)
    await attempt(
      () => post('review', { server, decision, shown: { [tool.name]: tool.hash } }),
      `${decision === 'accept' ? 'Approved' : 'Rejected'}: ${tool.name} of ${server}`,
    )
    setBusy(false)
    // Also after a refusal, which means that the tool has changed since.
    done()
  }
  return (
    <article class="waiting" aria-label={`${tool.name} of ${server}`}>
      <header>
        <h3>{tool.name}</h3>
        <p class="hint">{STATES[tool.state] ?? tool.state}</p>
        <div class="actions">
          <button type="button" class="main" disabled={busy} onClick={() => void decide('accept')}>
            Approve<span class="unseen"> {tool.name}</span>
          </button>
          <button type="button" disabled={busy} onClick={() => void decide('reject')}>
            Reject<span class="unseen"> {tool.name}</span>
          </button>
        </div>
      </header>
      {tool.findings.length > 0 && (
        <ul class="findings">
          {tool.findings.map(({ text, evidence, level }) => (
            <li key={text + evidence} class={level}>
              {text}
              <code>{evidence}</code>
            </li>
          ))}
        </ul>
      )}
      {tool.unknownBefore && (
        <p class="hint">The approved definition is not stored on this machine. This is the current one.</p>
      )}
      <Difference changes={tool.changes} whole={tool.state !== 'changed' || tool.unknownBefore} />
    </article>
  )
}

/** Before and after, side by side; a new tool has one side. */
const Difference = ({ changes, whole }: { readonly changes: ReviewTool['changes']; readonly whole: boolean }) => (
  <table class={`difference${whole ? ' whole' : ''}`}>
    <caption class="unseen">{whole ? 'Definition' : 'What changed'}</caption>
    <thead>
      <tr>
        <th scope="col">Place</th>
        {!whole && <th scope="col">Approved</th>}
        <th scope="col">{whole ? 'Definition' : 'Now'}</th>
      </tr>
    </thead>
    <tbody>
      {changes.map(({ field, lines }) => (
        <tr key={field}>
          <th scope="row">{field}</th>
          {!whole && (
            <td>
              <Side lines={lines} sign="-" />
            </td>
          )}
          <td>
            <Side lines={lines} sign="+" />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

const Side = ({ lines, sign }: { readonly lines: readonly string[]; readonly sign: '-' | '+' }) => (
  <>
    {lines
      .filter((line) => line.startsWith(sign) || line.startsWith('  '))
      .map((line, index) => (
        <p key={`${index}${line}`} class={line.startsWith(sign) ? (sign === '-' ? 'removed' : 'added') : 'same'}>
          {line.slice(2)}
        </p>
      ))}
  </>
)
