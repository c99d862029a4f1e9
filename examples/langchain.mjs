// The tools of a Pegboard configuration with LangChain.js.
//   npm install /path/to/pegboard @langchain/core @langchain/openai
//   OPENAI_API_KEY=… node langchain.mjs "Greet Ada" mcp.config.json
// For another server with the same API, set OPENAI_BASE_URL and MODEL.
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import { createToolset } from 'pegboard/agent'

const [question = 'Greet Ada.', config] = process.argv.slice(2)
const toolset = await createToolset({ config })
try {
  const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-5-mini' }).bindTools(toolset.serialize('openai'))
  const messages = [new SystemMessage(toolset.systemPrompt({ agentId: 'greeter' })), new HumanMessage(question)]
  for (let round = 0; round < 8; round++) {
    const answer = await model.invoke(messages)
    messages.push(answer)
    if (!answer.tool_calls?.length) {
      console.log(answer.text)
      break
    }
    const results = answer.tool_calls.map(async ({ id, name, args }) => {
      const { text, isError } = await toolset.call(name, args)
      return new ToolMessage({ tool_call_id: id, content: text, status: isError ? 'error' : 'success' })
    })
    messages.push(...(await Promise.all(results)))
  }
} finally {
  await toolset.close()
}
