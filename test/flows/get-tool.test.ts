import { expect, it } from 'vitest'
import { serve } from '../listed-server.ts'

it("shows title, icons, annotations and _meta of a server's tool, which cannot replace other members", async () => {
  const shown = {
    title: 'Add numbers',
    icons: [{ src: 'https://example.com/add.png', mimeType: 'image/png', sizes: ['48x48'] }],
    annotations: { readOnlyHint: true, idempotentHint: true },
    _meta: { 'example.com/cost': 3 },
  }
  const add = { name: 'add', description: 'Adds two numbers.', ...shown, policy: 'theirs', aliases: ['theirs'] }
  const served = await serve({ a: { tools: [add, { name: 'plain', description: 'Does little.' }] } })
  const told = (await served.call('get_tool', { name: 'mcp_a.add' })).structuredContent
  expect(told).toMatchObject({ name: 'mcp_a.add', policy: 'auto', ...shown })
  expect(told.aliases).not.toContain('theirs')
  const plain = (await served.call('get_tool', { name: 'mcp_a.plain' })).structuredContent
  expect([plain.icons, plain.annotations, plain._meta]).toEqual([undefined, undefined, undefined])
})
