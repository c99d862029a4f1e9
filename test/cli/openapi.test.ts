import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config/load.ts'
import { startApp } from '../app.ts'
import { folder, pegboard } from './terminal.ts'

const document = (...ids: string[]): object => ({
  openapi: '3.1.0',
  info: { title: 'Small', version: '1' },
  paths: Object.fromEntries(
    ids.map((id) => [`/${id}`, { get: { operationId: id, summary: `Gets ${id}.`, responses: {} } }]),
  ),
})

let at: ReturnType<typeof folder>
beforeAll(() => {
  at = folder({
    'small.json': document('one', 'two'),
    'good.json': { openapi: { small: { document: 'small.json', tools: { oen: { rename: 'x' } } } } },
    'bad.json': {
      openapi: {
        gone: { document: 'gone.json' },
        keyless: { document: 'small.json', headers: { A: '${env:NO_SUCH_KEY}' } },
      },
    },
    'typo.json': { openapi: { small: { documnet: 'small.json' } } },
  })
})
afterAll(() => at.remove())

describe('an API of the configuration', () => {
  it('is in the lists, and its problems in check', async () => {
    const { out } = await pegboard(at.dir, 'list', '--json', '--config', 'good.json')
    expect(JSON.parse(out)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: 'api_small.one', wire_name: 'small__one', risk_level: 'low' }),
      ]),
    )
    const servers = await pegboard(at.dir, 'list', 'servers', '--json', '--config', 'good.json')
    expect(JSON.parse(servers.out)).toEqual([{ id: 'api_small', state: 'ready', tools: 2, summary: 'The API Small' }])
    const check = await pegboard(at.dir, 'check', '--json', '--config', 'good.json')
    expect(check.code).toBe(0)
    expect(JSON.parse(check.out).warnings).toEqual([
      'openapi.small.tools names "oen", which small does not have; did you mean "one"?',
    ])
  })

  it('that cannot be used is an error of its own, or left out where a variable is missing', async () => {
    const check = await pegboard(at.dir, 'check', '--json', '--config', 'bad.json')
    expect(check.code).toBe(1)
    const { errors, warnings } = JSON.parse(check.out)
    expect(errors).toEqual(['api_gone is failing: The document cannot be used: the file does not exist.'])
    expect(warnings).toEqual([
      'openapi.keyless.headers.A needs the environment variable NO_SUCH_KEY, which is not set; the API is left out.',
    ])
    const typo = await pegboard(at.dir, 'check', '--config', 'typo.json')
    expect(typo.err).toContain('did you mean "document"?')
  })

  it('comes, changes and goes on a reload', async () => {
    const config = (openapi: object) =>
      readConfig(JSON.stringify({ openapi }), `${at.dir}/c.json`, {
        env: { PEGBOARD_STATE_DIR: `${at.dir}/state` },
        platform: process.platform,
        home: at.dir,
        cwd: at.dir,
      } as never).config
    const { app } = await startApp({})
    const ids = () => [...app.catalog.snapshot().byId.keys()].filter((id) => id.startsWith('api_'))
    const becomes = async (expected: string[]) => {
      const end = Date.now() + 5_000
      while (ids().join() !== expected.join() && Date.now() < end)
        await new Promise((resolve) => setTimeout(resolve, 10))
      expect(ids()).toEqual(expected)
    }
    const plan = await app.reload(config({ small: { document: 'small.json' } }))
    expect(plan.live).toContain('openapi.small')
    await becomes(['api_small.one', 'api_small.two'])
    writeFileSync(`${at.dir}/small.json`, JSON.stringify(document('two', 'three')))
    await app.reload(config({ small: { document: 'small.json' } }))
    await becomes(['api_small.two', 'api_small.three'])
    await app.reload(config({}))
    await becomes([])
  })
})
