import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Facts, ListedFact } from '../exec/remembered-facts.ts'
import type { MetaTool } from './meta-host.ts'
import { CHANGES, inputSchema, readText, TEXT } from './meta-input.ts'

const MAX_CHARS = 500

/** The tools for facts that later sessions should know. */
export function factTools(facts: () => Facts): readonly MetaTool[] {
  return [
    {
      name: 'remember',
      title: 'Remember',
      description: () => 'Keep a fact for later sessions; without content: list them.',
      inputSchema: inputSchema({ content: TEXT }),
      hints: CHANGES,
      async run(input, { caller }) {
        const text = input['content'] === undefined ? undefined : readText(input, 'content', 'remember', MAX_CHARS)
        const fact = text === undefined ? undefined : await facts().add(caller, text)
        const all = await facts().list(caller)
        return valueResult({
          ...(fact ? { remembered: formatFact(fact) } : { facts: all.map(formatFact) }),
          total: all.length,
        })
      },
    },
    {
      name: 'forget',
      title: 'Forget',
      description: () => 'Forget a fact.',
      inputSchema: inputSchema({ fact_id: TEXT }, 'fact_id'),
      hints: CHANGES,
      async run(input, { caller }) {
        const id = readText(input, 'fact_id', 'forget', 100)
        if (!(await facts().forget(caller, id)))
          throw new PegboardError('E_NOT_FOUND', `Fact '${id}' not found.`, {
            hint: 'remember without content lists yours.',
          })
        return valueResult({ fact_id: id, forgotten: true })
      },
    },
  ]
}

const formatFact = ({ id, text, at, from }: ListedFact) => ({
  fact_id: id,
  content: text,
  since: new Date(at).toISOString(),
  ...(from === undefined ? {} : { from }),
})
