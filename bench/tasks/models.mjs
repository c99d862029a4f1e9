// A model behind an endpoint of the OpenAI or the Anthropic shape.
const SYSTEM = 'Do what the user asks with the tools. Answer in one sentence when it is done.'

async function post(url, headers, body) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  if (!response.ok)
    throw new Error(`the endpoint answered ${response.status}: ${(await response.text()).slice(0, 300)}`)
  return await response.json()
}

const systemOf = (instructions) => (instructions ? `${SYSTEM}\n\n${instructions}` : SYSTEM)

const openAi = ({ endpoint, model, key }) => ({
  open(request, tools, instructions) {
    const messages = [
      { role: 'system', content: systemOf(instructions) },
      { role: 'user', content: request },
    ]
    const functions = tools.map(({ name, description, inputSchema: parameters }) => ({
      type: 'function',
      function: { name, description, parameters },
    }))
    return {
      /** The text of the last answer. */
      said: '',
      async next() {
        const headers = key ? { authorization: `Bearer ${key}` } : {}
        const offered = functions.length > 0 ? { tools: functions } : {}
        const { choices } = await post(endpoint, headers, { model, messages, ...offered })
        const { message } = choices[0]
        messages.push(message)
        this.said = message.content ?? ''
        return (message.tool_calls ?? []).map((call) => ({
          id: call.id,
          name: call.function.name,
          args: JSON.parse(call.function.arguments || '{}'),
        }))
      },
      answer: (id, content) => messages.push({ role: 'tool', tool_call_id: id, content }),
    }
  },
})

const anthropic = ({ endpoint, model, key }) => ({
  open(request, tools, instructions) {
    const messages = [{ role: 'user', content: request }]
    const defined = tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      input_schema: inputSchema,
    }))
    return {
      said: '',
      async next() {
        const headers = { 'anthropic-version': '2023-06-01', ...(key && { 'x-api-key': key }) }
        const offered = defined.length > 0 ? { tools: defined } : {}
        const body = { model, max_tokens: 4_096, system: systemOf(instructions), messages, ...offered }
        const { content } = await post(endpoint, headers, body)
        messages.push({ role: 'assistant', content }, { role: 'user', content: [] })
        this.said = content.flatMap(({ type, text }) => (type === 'text' ? [text] : [])).join('\n')
        return content
          .filter(({ type }) => type === 'tool_use')
          .map(({ id, name, input }) => ({ id, name, args: input }))
      },
      answer: (id, content) => messages.at(-1).content.push({ type: 'tool_result', tool_use_id: id, content }),
    }
  },
})

/**
 * `open(request, tools, instructions)` begins a conversation; the instructions are those of the MCP server.
 * @param options `shape` ("openai" or "anthropic"), `endpoint`, `model`, `key`
 */
export const openModel = (options) => (options.shape === 'anthropic' ? anthropic : openAi)(options)
