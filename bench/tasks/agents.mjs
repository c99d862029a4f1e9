// Agents that do a job: one that knows the steps, for each way of listing tools, and any model behind an endpoint.
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

const MAX_ROUNDS = 30
const AsyncFunction = (async () => undefined).constructor

/** What a model reads and writes. Each round reads the menu and everything said so far again. */
export function createConversation(menu, request) {
  const said = [countTokens(request)]
  const total = { calls: 0, searches: 0, in: 0, out: 0, context: 0 }
  const sum = () => menu + said.reduce((all, tokens) => all + tokens, 0)
  return {
    total,
    /** @param written the call as the model writes it @param read the result as it reads it */
    round(name, written, read) {
      total.in += sum()
      const [out, answer] = [countTokens(written), countTokens(read)]
      total.out += out
      said.push(out, answer)
      total.context = sum()
      if (name === 'search_tools') total.searches++
      else total.calls++
    },
  }
}

/** The text that a client gives the model. */
export const textOf = ({ content = [], structuredContent }) =>
  content.map((block) => (block.type === 'text' ? block.text : JSON.stringify(block))).join('\n') ||
  JSON.stringify(structuredContent ?? null)

/** The result as data: structured content, or the text, parsed if it is JSON. */
export function dataOf(result) {
  const { structuredContent } = result
  if (structuredContent !== undefined) return structuredContent
  const text = textOf(result)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** @param talk `call(name, args)` that counts; throws what the model would have to correct */
const talkOver = (client, conversation) => ({
  async call(name, args) {
    const result = await client.call(name, args)
    conversation.round(name, JSON.stringify({ name, arguments: args }), textOf(result))
    if (result.isError) throw new Error(`${name}: ${textOf(result).slice(0, 300)}`)
    return result
  },
})

const evaluate = (args, dir, r) => new AsyncFunction('dir', 'r', `return (${args})`)(dir, r)

/** Makes the calls of a job one after the other. Of a result that was too long, it reads the part that the step names. */
async function inTurn({ steps }, dir, call) {
  const r = []
  for (const { tool, args, long } of steps) {
    const result = await call(tool, await evaluate(args, dir, r))
    const [, handle] = /\. Kept as (r_\w+) for/.exec(textOf(result)) ?? []
    r.push(dataOf(handle && long ? await call('read_result', { handle, ...long }) : result))
  }
  return r.at(-1)
}

/** Searches for all needs at once, then alone for each tool that was not found. */
async function findAll(talk, steps, isIn) {
  const needs = new Map(steps.map(({ need, tool }) => [tool, need]))
  const first = await talk.call('search_tools', { query: [...needs.values()].join('\n') })
  for (const [tool, need] of needs) {
    if (isIn(first, tool)) continue
    const again = await talk.call('search_tools', { query: need, max_results: 10 })
    if (!isIn(again, tool)) throw new Error(`not found: ${tool} for "${need}"`)
  }
}

const script = (steps, dir) =>
  [
    `const dir = ${JSON.stringify(dir)}, r = []`,
    ...steps.map(({ tool, args }) => {
      const [owner, name] = tool.split('.')
      return `r.push(await tools[${JSON.stringify(owner)}][${JSON.stringify(name)}](${args}))`
    }),
    'return r.at(-1)',
  ].join('\n')

/** How an agent that knows the steps works with each way of listing tools. */
export const scripted = {
  direct: (job, dir, talk) => inTurn(job, dir, (tool, args) => talk.call(tool.replace('.', '__'), args)),
  async discovery(job, dir, talk) {
    await findAll(talk, job.steps, (found, tool) => textOf(found).includes(`"${tool}"`))
    return inTurn(job, dir, (name, params) => talk.call('execute_tool', { name, params }))
  },
  async compact(job, dir, talk) {
    for (const name of new Set(job.steps.map(({ tool }) => tool))) await talk.call('get_tool', { name })
    return inTurn(job, dir, (name, params) => talk.call('execute_tool', { name, params }))
  },
  async code(job, dir, talk) {
    const declares = (found, tool) => {
      const [owner, name] = tool.split('.')
      const text = dataOf(found).declarations
      return new RegExp(`^ {2}"?${owner}"?: \\{$`, 'm').test(text) && new RegExp(`\\s"?${name}"?\\(args`).test(text)
    }
    await findAll(talk, job.steps, declares)
    return dataOf(await talk.call('run_code', { code: script(job.steps, dir) })).result
  },
}

/** One job by the agent that knows the steps. */
export async function runScripted(mode, job, { client, dir, menu }) {
  const conversation = createConversation(menu, job.request)
  try {
    const answer = await scripted[mode](job, dir, talkOver(client, conversation))
    return { ...conversation.total, ok: job.check(dir, answer) === true }
  } catch (error) {
    return { ...conversation.total, ok: false, error: error.message }
  }
}

/** One job by a model. The check gets the last result, and what the model said at last. */
export async function runModel(_mode, job, { client, dir, menu, tools, model }) {
  const conversation = createConversation(menu, job.request)
  const talk = talkOver(client, conversation)
  const chat = model.open(dir === undefined ? job.request : `${job.request}\nYour folder is ${dir}.`, tools)
  let last
  try {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const calls = await chat.next()
      if (calls.length === 0) break
      for (const { id, name, args } of calls) {
        const text = await talk.call(name, args).then(
          (result) => {
            last = dataOf(result)
            return textOf(result)
          },
          (error) => error.message,
        )
        chat.answer(id, text)
      }
    }
    return { ...conversation.total, ok: (await job.check(dir, last?.result ?? last, chat.said)) === true }
  } catch (error) {
    return { ...conversation.total, ok: false, error: error.message }
  }
}
