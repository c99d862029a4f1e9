import type { TryAnswer } from '../../../src/ui/api-types.ts'
import { count, duration } from './format.ts'
import { Log } from './log.tsx'
import { State } from './status.tsx'

/** The result of a call. Its text is shown as text, whatever it contains. */
export const Outcome = ({ answer }: { readonly answer: TryAnswer }) => (
  <section aria-live="polite">
    <h3>Result</h3>
    <p>
      <State value={answer.outcome} /> in {duration(answer.ms)}, {count(answer.tokens)} tokens
    </p>
    <Log text={answer.text === '' ? '(empty)' : answer.text} />
  </section>
)
