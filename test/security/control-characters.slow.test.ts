import { expect, test as named, onTestFinished } from 'vitest'
import { createLog } from '../../src/core/log.ts'
import { folder, pegboard } from '../cli/terminal.ts'

const test = (name: string, body: () => Promise<void> | void): void => named(name, body, 120_000)
const STEER = '\u001b[31m\u001b]0;owned\u0007\u009b2J\r\u202eevil'
const STEERS = /[^\P{Cc}\n\t]|[\u202A-\u202E\u2066-\u2069]/u

function lab(files: Readonly<Record<string, string | object>>): string {
  const { dir, remove } = folder(files)
  onTestFinished(remove)
  return dir
}

const steering = `const S = ${JSON.stringify(STEER)}
export default {
  name: 'steering',
  description: 'Summary ' + S,
  tools: {
    one: {
      description: 'Paints ' + S + '\\nforged  low  A row of its own.',
      effect: 'read',
      input: { type: 'object', properties: { ['p' + S]: { type: 'string', description: S } } },
      run: () => ({ said: S }),
    },
    text: { description: 'Says it.', effect: 'read', run: () => S },
    bad: { description: 'Throws it.', effect: 'read', run: () => { throw new Error(S) } },
  },
}`
const painted = {
  'mcp.config.json': {},
  'modules/steering.mjs': steering,
  'modules/broken.mjs': `throw new Error(${JSON.stringify(STEER)})`,
  [`modules/\u001b[31mred\nforged.mjs`]: 'export default 1',
}

test('no command prints terminal control characters or lets a module add a row', async () => {
  const dir = lab(painted)
  for (const words of [
    ['list', 'tools', '--hidden'],
    ['list', 'modules'],
    ['list', 'servers'],
    ['check'],
    ['review'],
    ['why', 'steering.one'],
    ['why', 'who paints'],
    ['search', 'paints'],
    ['schema'],
    ['schema', 'steering'],
    ['prompt'],
    ['call', 'steering.text', '{}'],
    ['call', 'steering.bad', '{}'],
    ['call', STEER, '{}'],
    ['list', STEER],
  ]) {
    const { out, err } = await pegboard(dir, ...words, '--config', 'mcp.config.json')
    for (const text of [out, err]) {
      expect(text.split('\n').filter((line) => STEERS.test(line) || /^forged\b/.test(line))).toEqual([])
    }
  }
})

test('output for scripts keeps every character, escaped so that no terminal obeys it', async () => {
  const dir = lab(painted)
  const { out } = await pegboard(dir, 'call', 'steering.one', '{}', '--json', '--config', 'mcp.config.json')
  expect(out).not.toMatch(STEERS)
  expect(JSON.stringify(JSON.parse(out))).toContain(JSON.stringify(STEER).slice(1, -1))
})

test('a log entry is one line without control characters', () => {
  const lines: string[] = []
  createLog((line) => lines.push(line)).warn(`from ${STEER}`, { tag: '\u{E0041}', [STEER]: `\n${STEER}` })
  expect(lines).toHaveLength(1)
  expect(lines[0]).not.toMatch(STEERS)
  expect(lines[0]).not.toMatch(/[\n\u{E0041}]/u)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ message: `from ${STEER}`, tag: '\u{E0041}' })
})
