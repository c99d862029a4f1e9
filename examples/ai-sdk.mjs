// The tools of a Pegboard configuration with the Vercel AI SDK.
//   npm install /path/to/pegboard ai @ai-sdk/openai-compatible
//   OPENAI_API_KEY=… node ai-sdk.mjs "Greet Ada" mcp.config.json
// For another server with the same API, set OPENAI_BASE_URL and MODEL.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, stepCountIs, tool } from 'ai'
import { createToolset } from 'pegboard/agent'

const [question = 'Greet Ada.', config] = process.argv.slice(2)
const provider = createOpenAICompatible({
  name: 'openai',
  baseURL: process.env.OPENAI_BASE_URL ?? 'https://api.openai.com/v1',
  apiKey: process.env.OPENAI_API_KEY,
})
const toolset = await createToolset({ config })
try {
  const tools = toolset.list().map(({ name, description, inputSchema }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema(inputSchema),
      execute: async (args, { abortSignal }) => (await toolset.call(name, args, { signal: abortSignal })).text,
    }),
  ])
  const { text } = await generateText({
    model: provider(process.env.MODEL ?? 'gpt-5-mini'),
    system: toolset.systemPrompt({ agentId: 'greeter' }),
    prompt: question,
    tools: Object.fromEntries(tools),
    stopWhen: stepCountIs(8),
  })
  console.log(text)
} finally {
  await toolset.close()
}
