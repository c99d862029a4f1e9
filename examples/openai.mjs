// The tools of a Pegboard configuration with the OpenAI SDK.
//   npm install /path/to/pegboard openai
//   OPENAI_API_KEY=… node openai.mjs "Greet Ada" mcp.config.json
// For another server with the same API, set OPENAI_BASE_URL and MODEL.
import OpenAI from 'openai'
import { createToolset } from 'pegboard/agent'

const [question = 'Greet Ada.', config] = process.argv.slice(2)
const client = new OpenAI()
const toolset = await createToolset({ config })
try {
  const messages = [
    { role: 'system', content: toolset.systemPrompt({ agentId: 'greeter' }) },
    { role: 'user', content: question },
  ]
  for (let round = 0; round < 8; round++) {
    const { choices } = await client.chat.completions.create({
      model: process.env.MODEL ?? 'gpt-5-mini',
      messages,
      tools: toolset.serialize('openai'),
    })
    const { message } = choices[0]
    messages.push(message)
    if (!message.tool_calls?.length) {
      console.log(message.content)
      break
    }
    const results = message.tool_calls.map(async ({ id, function: { name, arguments: args } }) => {
      const { text } = await toolset.call(name, JSON.parse(args))
      return { role: 'tool', tool_call_id: id, content: text }
    })
    messages.push(...(await Promise.all(results)))
  }
} finally {
  await toolset.close()
}
