import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Facts, ListedFact } from '../exec/remembered-facts.ts'
import type { MetaTool } from './meta-host.ts'
import { onlyKeys, readText } from './meta-input.ts'

const CHANGES = { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
const MAX_CHARS = 500

/** The tools for facts that later sessions should know. */
export function factTools(facts: () => Facts): readonly MetaTool[] {
  return [
    {
      name: 'remember',
      title: 'Remember',
      description: () => 'Keep a fact for later sessions; without content: list them.',
      inputSchema: { type: 'object', properties: { content: { type: 'string' } } },
      hints: CHANGES,
      async run(input, { caller }) {
        onlyKeys(input, ['content'], 'remember')
        const kept =
          input['content'] === undefined
            ? undefined
            : await facts().add(caller, readText(input, 'content', 'remember', MAX_CHARS))
        const all = await facts().of(caller)
        return valueResult({
          ...(kept ? { remembered: told(kept), total: all.length } : { facts: all.map(told), total: all.length }),
        })
      },
    },
    {
      name: 'forget',
      title: 'Forget',
      description: () => 'Forget a fact.',
      inputSchema: { type: 'object', properties: { fact_id: { type: 'string' } }, required: ['fact_id'] },
      hints: CHANGES,
      async run(input, { caller }) {
        onlyKeys(input, ['fact_id'], 'forget')
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

const told = ({ id, text, at, from }: ListedFact) => ({
  fact_id: id,
  content: text,
  since: new Date(at).toISOString(),
  ...(from === undefined ? {} : { from }),
})
