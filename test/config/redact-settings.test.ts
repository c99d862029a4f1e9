import { expect, it } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'

const file = `{
  "services": { "llm": { "baseUrl": "https://api.example.com/v1", "model": "m", "apiKey": "\${LLM_KEY}" } },
  "modules": { "notes": { "config": { "greeting": "\${GREETING}", "limit": 3, "bot_token": "literal-token", "key_env": "MY_KEY" } } },
  "mcpServers": {
    "web": { "url": "https://ann:hunter2@mcp.example.com/mcp?sig=abcdef", "headers": { "X-Who": "header-secret" } },
    "run": { "command": "node", "args": ["--pass", "arg-secret"], "env": { "ANY": "env-secret" } }
  }
}`

it('returns the settings without secrets [CTX-09]', () => {
  const env = { LLM_KEY: 'key-from-env', GREETING: 'hello-from-env', MY_KEY: 'named-by-key-env' }
  const { config } = readConfig(file, '/srv/mcp.config.json', { env, cwd: '/srv' })
  // biome-ignore lint/suspicious/noExplicitAny: looked into
  const shown = config.published() as any
  expect(shown.exposure.mode).toBe('auto')
  expect(shown.modules.notes.config).toEqual({
    greeting: '<removed>',
    limit: 3,
    bot_token: '<removed>',
    key_env: 'MY_KEY',
  })
  const text = JSON.stringify(shown)
  expect(text).toContain('"https://mcp.example.com/mcp"')
  for (const secret of [
    ...['key-from-env', 'hello-from-env', 'named-by-key-env', 'literal-token'],
    ...['hunter2', 'abcdef', 'header-secret', 'arg-secret', 'env-secret'],
  ])
    expect(text, secret).not.toContain(secret)
})
