import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { KNOWN_NEEDS } from '../../src/search/atlas.ts'

interface Server {
  id: string
  licence: string
  kind: string
  test?: boolean
  callsNeed?: string
}

const folder = join(import.meta.dirname, '../../training/atlas')
const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'))
const servers: Server[] = readJson(join(folder, 'servers.json'))

describe('the collected definitions of public MCP servers', () => {
  it('cover at least 110 servers, of which at least 45 are in the test pool', () => {
    expect(servers.length).toBeGreaterThanOrEqual(110)
    expect(servers.filter((server) => server.test).length).toBeGreaterThanOrEqual(45)
  })

  it('have one file for each server in servers.json', () => {
    const files = readdirSync(join(folder, 'definitions')).sort()
    expect(files).toEqual(servers.map((server) => `${server.id}.json`).sort())
  })

  it('name the licence, the purpose and 1 to 120 distinct tools of each server', () => {
    for (const { id, licence, kind } of servers) {
      const definitions = readJson(join(folder, 'definitions', `${id}.json`))
      expect(definitions, id).toMatchObject({ id, licence, kind })
      expect(licence, id).toMatch(/^(MIT|ISC|Apache-2\.0|MPL-2\.0|AGPL-3\.0)$/)
      const names = definitions.tools.map((tool: { name: string }) => tool.name)
      expect(names.length, id).toBeGreaterThan(0)
      expect(names.length, id).toBeLessThanOrEqual(120)
      expect(new Set(names).size, id).toBe(names.length)
    }
  })

  it('say what calls need as the atlas that ships does', () => {
    const needs = servers.flatMap(({ id, callsNeed }) => (callsNeed === undefined ? [] : [[id, callsNeed]]))
    expect(readJson(join(folder, '../../models/atlas/index.json')).needs).toEqual(Object.fromEntries(needs))
    for (const [id, need] of needs) expect(KNOWN_NEEDS, id).toContain(need)
  })

  it('have written requests for each server of the atlas that ships', () => {
    const ships = readdirSync(join(folder, '../../models/atlas')).filter((name) => name !== 'index.json')
    const written = readdirSync(join(folder, 'written')).map((name) => name.replace('.jsonl', '.json'))
    expect(written.sort()).toEqual(ships.sort())
  })

  it('are not part of the npm package', () => {
    const { files }: { files: string[] } = readJson(join(folder, '../../package.json'))
    expect(files.filter((file) => file.startsWith('training'))).toEqual([])
  })
})
