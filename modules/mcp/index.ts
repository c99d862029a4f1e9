import { defineModule } from 'pegboard'
import { connect, disconnect, health, list_servers, reconnect } from './connection-tools.ts'
import { call_tool, get_prompt, list_prompts, list_resources, list_tools, read_resource } from './use.ts'

export default defineModule({
  name: 'mcp',
  description: 'The MCP servers behind this one: which are configured, their state, and what they offer.',
  synonyms: [['server', 'upstream', 'serveur', 'servidor']],
  tools: {
    list_servers,
    connect,
    disconnect,
    reconnect,
    health,
    list_tools,
    call_tool,
    list_resources,
    read_resource,
    list_prompts,
    get_prompt,
  },
})
