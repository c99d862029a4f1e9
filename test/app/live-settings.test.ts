import { expect, it } from 'vitest'
import { createLiveSettings } from '../../src/app/live-settings.ts'
import { readConfig } from '../../src/config/load-config.ts'

const machine = { env: {}, cwd: '/start', platform: 'linux', home: '/home/ada' } as const
const config = (value: unknown) => readConfig(JSON.stringify(value), '/etc/p/c.json', machine).config

it('a reload applies all changes except those that need a restart', () => {
  const settings = createLiveSettings(config({ search: { embedder: 'none' } }))
  const next = config({
    policy: { maxEffect: 'read' },
    mcpServers: { a: { command: 'a' }, broken: {} },
  })
  expect(settings.reload(next)).toEqual({
    live: ['mcpServers.a', 'policy.maxEffect', 'mcpServers.broken'],
    restart: ['search.embedder'],
  })
  expect(settings.config).toMatchObject({
    search: { embedder: 'none' },
    policy: { maxEffect: 'read' },
    servers: { a: { enabled: true } },
    skipped: [{ id: 'broken' }],
  })
})
