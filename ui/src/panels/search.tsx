import { useEffect, useState } from 'preact/hooks'
import type { SearchAnswer, SearchRow } from '../../../src/ui/api-types.ts'
import { get } from '../api.ts'
import { count, duration } from '../parts/format.ts'
import { Log } from '../parts/log.tsx'
import { ProfileChoice } from '../parts/profile-choice.tsx'
import { Empty, Loading } from '../parts/status.tsx'
import { attempt, profile } from '../state.ts'

const PAUSE_MS = 250
/** The parts of a score, by the names that `pegboard search --explain` uses. */
const PARTS: readonly (readonly [key: string, title: string, about: string])[] = [
  ['lexical', 'Words', 'How well the words of the query match'],
  ['cosine', 'Meaning', 'How near the meaning is'],
  ['covered', 'Covered', 'The share of the query that the tool covers'],
  ['nameCovered', 'Name', 'The share of its name that the query covers'],
  ['calls', 'Calls', 'How often you called it'],
]

export function Search() {
  const [query, setQuery] = useState('')
  const [answer, setAnswer] = useState<SearchAnswer | undefined>()
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    const q = query.trim()
    if (q === '') return setAnswer(undefined)
    let over = false
    const timer = setTimeout(async () => {
      setBusy(true)
      const found = await attempt(() => get<SearchAnswer>('search', { q, profile: profile.value, limit: '10' }))
      if (over) return
      setBusy(false)
      if (found) setAnswer(found)
    }, PAUSE_MS)
    return () => {
      over = true
      clearTimeout(timer)
    }
  }, [query, profile.value])
  return (
    <>
      <search class="filters">
        <label class="grow">
          <span class="unseen">What should the tool do?</span>
          <input
            type="search"
            placeholder="What should the tool do? For example: read a file"
            maxLength={500}
            value={query}
            onInput={(event) => setQuery(event.currentTarget.value)}
          />
        </label>
        <ProfileChoice />
        <p class="total" role="status">
          {busy ? 'Searching…' : answer ? `${answer.ranking} search in ${duration(answer.ms)}` : ''}
        </p>
      </search>
      {query.trim() === '' ? (
        <Empty title="Type what you need">
          <p>You see the tools that a model would find, the parts of each score, and exactly what the model reads.</p>
        </Empty>
      ) : !answer ? (
        <Loading what="the answer" />
      ) : (
        <div class="scroll">
          {answer.unanswered && (
            <p class="callout">No tool is likely to be right. These are the nearest ones, and the model is told so.</p>
          )}
          <Ranking rows={answer.rows} />
          <section class="card">
            <h2>What the model reads ({count(answer.tokens)} tokens)</h2>
            <Log text={answer.shown} />
          </section>
        </div>
      )}
    </>
  )
}

const Ranking = ({ rows }: { readonly rows: readonly SearchRow[] }) => (
  <table class="plain">
    <caption class="unseen">Tools found, best first</caption>
    <thead>
      <tr>
        <th scope="col">Tool</th>
        <th scope="col" class="end">
          Score
        </th>
        {PARTS.map(([key, title, about]) => (
          <th key={key} scope="col" class="end" title={about}>
            {title}
          </th>
        ))}
        <th scope="col">Matched words</th>
      </tr>
    </thead>
    <tbody>
      {rows.map(({ id, score, parts, matched, summary }) => (
        <tr key={id}>
          <th scope="row">
            <a href={`#/tools?tool=${encodeURIComponent(id)}`}>{id}</a>
            <span class="hint">{summary}</span>
          </th>
          <td class="end">
            <meter min={0} max={1} value={score} aria-label={`Score of ${id}`} /> {score.toFixed(2)}
          </td>
          {PARTS.map(([key]) => (
            <td key={key} class="end">
              {key === 'calls' ? count(parts[key] ?? 0) : (parts[key] ?? 0).toFixed(2)}
            </td>
          ))}
          <td>{matched.join(', ')}</td>
        </tr>
      ))}
    </tbody>
  </table>
)
