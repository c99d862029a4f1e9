// What a model needs to find the tool for a request.
import { createConversation, textOf } from '../tasks/agents.mjs'

const MAX_ROUNDS = 12

/** Whether the text of an answer shows one of the tools: `git/git_log` as "mcp_git.git_log". */
const shows = (text, wanted) => wanted.some((id) => text.includes(`"mcp_${id.replace('/', '.')}"`))

/**
 * One request by a model with only the listed tools.
 * @param reached takes the calls that reached a server since the last time
 */
export async function runRequest({ query, relevant }, { client, menu, tools, instructions, model, reached }) {
  const conversation = createConversation(menu, query)
  const chat = model.open(query, tools, instructions)
  let shown
  let error
  reached()
  try {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const calls = await chat.next()
      if (calls.length === 0) break
      for (const { id, name, args } of calls) {
        const text = await client.call(name, args).then(textOf, (failed) => failed.message)
        if (name === 'search_tools') shown ??= shows(text, relevant)
        conversation.round(name, JSON.stringify({ name, arguments: args }), text)
        chat.answer(id, text)
      }
    }
  } catch (failed) {
    error = failed.message
  }
  const used = reached()
  const ok = relevant.length > 0 ? used.some((id) => relevant.includes(id)) : used.length === 0
  return { ...conversation.total, used, shown: shown ?? false, ok, ...(error && { error }) }
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length

/** The figures of all requests as a row of a table. */
export const rowOf = (name, results) => {
  const labelled = results.filter(({ relevant }) => relevant.length > 0)
  const percent = (some, is) => (100 * some.filter(is).length) / some.length
  return {
    model: name,
    requests: results.length,
    'success, %': percent(results, ({ ok }) => ok),
    'first search shows it, %': percent(labelled, ({ shown }) => shown),
    'searches, a request': mean(results.map(({ searches }) => searches)),
    'calls, a request': mean(results.map(({ calls }) => calls)),
    'in, a request': mean(results.map((one) => one.in)),
    'out, a request': mean(results.map(({ out }) => out)),
  }
}
