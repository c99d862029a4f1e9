import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { startApp } from '../app.ts'
import { serve } from '../openapi/mock.ts'
import { folder, pegboard } from './terminal.ts'

const document = (...ids: string[]): object => ({
  openapi: '3.1.0',
  info: { title: 'Small', version: '1' },
  servers: [{ url: 'https://api.example.com' }],
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
    'private.json': { ...document('one'), servers: [{ url: 'http://127.0.0.1:4000/v1' }] },
    'nowhere.json': { ...document('one'), servers: undefined },
    'addresses.json': {
      openapi: {
        refused: { document: 'private.json' },
        allowed: { document: 'private.json', allowPrivate: true },
        moved: { document: 'private.json', baseUrl: 'http://127.0.0.1:5000' },
        nowhere: { document: 'nowhere.json' },
      },
    },
    'typo.json': { openapi: { small: { documnet: 'small.json' } } },
  })
})
afterAll(() => at.remove())

describe('an API of the configuration', () => {
  it('appears in the lists, and its problems in check', async () => {
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

  it('with a private server address causes a warning in check', async () => {
    const check = await pegboard(at.dir, 'check', '--json', '--config', 'addresses.json')
    expect(JSON.parse(check.out).warnings).toEqual([
      'openapi.refused: its document names the server http://127.0.0.1:4000, which is private or uses plain http, so calls are refused. Set openapi.refused.baseUrl to this address, or openapi.refused.allowPrivate to true.',
      'openapi.nowhere: its document names no server, so calls fail. Set openapi.nowhere.baseUrl.',
    ])
  })

  it('that is unusable is reported as an error, or skipped if a variable is missing', async () => {
    const check = await pegboard(at.dir, 'check', '--json', '--config', 'bad.json')
    expect(check.code).toBe(1)
    const { errors, warnings } = JSON.parse(check.out)
    expect(errors).toEqual(['api_gone is failing: The document cannot be used: the file does not exist.'])
    expect(warnings).toEqual([
      'openapi.keyless.headers.A needs the environment variable NO_SUCH_KEY, which is not set; the API is ignored.',
    ])
    const typo = await pegboard(at.dir, 'check', '--config', 'typo.json')
    expect(typo.err).toContain('did you mean "document"?')
  })

  it('is added, changed and removed on reload', async () => {
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

describe('an API that has changed', () => {
  it('waits for a review that shows the change, and check --frozen fails until then', async () => {
    const { dir, remove } = folder({
      'small.json': document('one', 'two'),
      'mcp.config.json': { openapi: { small: { document: 'small.json' } } },
    })
    try {
      const run = (...argv: string[]) => pegboard(dir, ...argv, '--config', 'mcp.config.json')
      expect((await run('review')).out).toBe(
        'openapi.small (trust: first-use): its tools were never read on this machine. To read them, or to see why that fails: pegboard --config mcp.config.json check\n',
      )
      expect((await run('check', '--frozen')).code).toBe(1)
      expect(existsSync(`${dir}/pegboard.lock.json`)).toBe(false)
      expect((await run('check')).code).toBe(0)
      expect((await run('check', '--frozen')).code).toBe(0)
      expect((await run('review')).out).toBe('openapi.small (trust: first-use): no tools to review\n')

      const text = readFileSync(`${dir}/small.json`, 'utf8')
      writeFileSync(`${dir}/small.json`, text.replace('Gets two.', 'Gets two of them.'))
      const frozen = await run('check', '--frozen', '--json')
      expect(frozen.code).toBe(1)
      expect(JSON.parse(frozen.out).errors).toEqual([
        'api_small: 1 tool waits for a review: pegboard review openapi.small (two has changed since it was approved)',
      ])
      expect((await run('list', 'servers')).out).toContain(
        '1 tool waits for a review: pegboard --config mcp.config.json review openapi.small',
      )
      expect((await run('review', '--frozen')).code).toBe(1)
      expect((await run('review', 'api_small')).out).toBe(`openapi.small (trust: first-use): 1 tool to review

  two: changed since it was approved
    description: Gets two. → Gets two of them.

Approve all tools:  pegboard --config mcp.config.json review openapi.small --accept
To decide about single tools, name them after the server. --reject instead of --accept rejects them.
`)
      expect((await run('review', 'small', '--accept')).out).toBe('openapi.small: approved: two\n')
      expect((await run('check', '--frozen')).code).toBe(0)
      expect(JSON.parse((await run('list', '--json')).out)).toContainEqual(
        expect.objectContaining({ name: 'api_small.two', description: 'Gets two of them.' }),
      )
      // A renamed operation counts as a new one.
      writeFileSync(`${dir}/small.json`, JSON.stringify(document('one', 'three')))
      expect(JSON.parse((await run('check', '--frozen', '--json')).out).errors).toEqual([
        'api_small: 1 tool waits for a review: pegboard review openapi.small (three is not in the lock file, and --frozen allows no other tools)',
      ])
    } finally {
      remove()
    }
  })

  it('waits for a review if a rule matches none of its tools any more, also with trust "always"', async () => {
    for (const [entry, policy] of [
      [{}, { deny: ['small.two'] }],
      [{ deny: ['two'] }, {}],
    ]) {
      const { dir, remove } = folder({
        'small.json': document('one', 'two'),
        'mcp.config.json': { openapi: { small: { document: 'small.json', trust: 'always', ...entry } }, policy },
      })
      try {
        const run = (...argv: string[]) => pegboard(dir, ...argv, '--config', 'mcp.config.json')
        expect((await run('check')).code).toBe(0)
        writeFileSync(`${dir}/small.json`, JSON.stringify(document('one', 'three')))
        const names = (JSON.parse((await run('list', '--json')).out) as { name: string }[]).map(({ name }) => name)
        expect(names.filter((name) => name.startsWith('api_'))).toEqual(['api_small.one'])
        expect((await run('list', 'servers')).out).toContain('1 tool waits for a review')
      } finally {
        remove()
      }
    }
  })

  it('is downloaded again by check --frozen if its document is remote', async () => {
    const documents = [JSON.stringify(document('one')), JSON.stringify(document('two'))]
    const server = await serve((_request, response) => void response.end(documents[0]))
    const { dir, remove } = folder({
      'mcp.config.json': { openapi: { small: { document: `${server.url}/d.json`, allowPrivate: true } } },
    })
    try {
      const run = (...argv: string[]) => pegboard(dir, 'check', ...argv, '--config', 'mcp.config.json')
      expect((await run()).code).toBe(0)
      documents.shift()
      expect((await run()).code).toBe(0)
      expect((await run('--frozen')).code).toBe(1)
    } finally {
      await server.close()
      remove()
    }
  })

  it("cannot take a server's name in the lock file", async () => {
    const { dir, remove } = folder({ 'mcp.config.json': { mcpServers: { 'openapi.small': { command: 'node' } } } })
    try {
      const { err, out } = await pegboard(dir, 'check', '--config', 'mcp.config.json')
      expect(`${out}${err}`).toContain(
        'mcpServers.openapi.small has the name of an API in the lock file; choose one that does not begin with "openapi."',
      )
    } finally {
      remove()
    }
  })
})
