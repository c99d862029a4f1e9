import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { applyEdits } from '../../src/setup/file-edits.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import { pegboard } from './terminal.ts'

describe('pegboard undo', () => {
  it('takes back the last change, byte for byte, and lists changes', async () => {
    const dir = temporaryFolder()
    const file = join(dir, 'mcp.json')
    writeFileSync(file, '{"a": 1}\r\n')
    expect((await pegboard(dir, 'undo', '--list')).out).toBe('Pegboard has changed no configuration file.\n')
    expect((await pegboard(dir, 'undo')).err).toBe(
      'pegboard: E_UNDO_MISSING: There is no change to undo. Pegboard has changed no configuration file.\n',
    )
    const { id } = await applyEdits([{ path: file, before: '{"a": 1}\r\n', after: '{}' }], {
      stateDir: join(dir, '.state'),
      clock: createManualClock(Date.UTC(2026, 0, 2)),
      reason: 'add a server',
    })
    expect(await pegboard(dir, 'undo')).toEqual({ code: 0, out: `Undone: add a server.\n  ${file}\n`, err: '' })
    expect(readFileSync(file, 'utf8')).toBe('{"a": 1}\r\n')
    expect((await pegboard(dir, 'undo', '--list')).out).toBe(
      `${id}  2026-01-02T00:00:00.000Z  add a server (undone)  ${file}\n`,
    )
    expect(await pegboard(dir, 'undo')).toMatchObject({
      code: 1,
      err: expect.stringContaining('E_UNDO_MISSING: There is no change to undo.'),
    })
  })
})

describe('pegboard undo without an id', () => {
  it('undoes the last change of the configuration in use', async () => {
    const dir = temporaryFolder()
    const text = '{ "mcpServers": { "box": { "command": "no-such-program" } } }\n'
    const [mine, other] = ['mine.json', 'other.json'].map((name) => join(dir, name)) as [string, string]
    for (const file of [mine, other]) writeFileSync(file, text)
    await pegboard(dir, 'disable', 'box', '--config', 'mine.json')
    await pegboard(dir, 'disable', 'box', '--config', 'other.json')
    expect(await pegboard(dir, 'undo', '--config', 'mine.json')).toMatchObject({
      code: 0,
      out: `Undone: disable box.\n  ${mine}\n`,
    })
    expect(readFileSync(mine, 'utf8')).toBe(text)
    expect((await pegboard(dir, 'undo', '--config', 'mine.json')).err).toContain(
      `There is no change of ${mine} to undo.`,
    )
    expect((await pegboard(dir, 'undo', '--config', 'other.json')).code).toBe(0)
    expect(readFileSync(other, 'utf8')).toBe(text)
  })
})

describe.runIf(process.platform === 'linux')('pegboard config path', () => {
  it('prints the file that commands use, and says why', async () => {
    const dir = temporaryFolder()
    const own = join(dir, '.config/pegboard/mcp.config.json')
    expect(await pegboard(dir, 'config', 'path')).toEqual({
      code: 1,
      out: '',
      err: `pegboard: no configuration file is used here; to create ${own}, run pegboard init\n`,
    })
    mkdirSync(join(dir, '.config/pegboard'), { recursive: true })
    writeFileSync(own, '{}')
    expect(await pegboard(dir, 'config')).toEqual({
      code: 0,
      out: `${own}\n`,
      err: 'pegboard: it is the configuration of this user\n',
    })
    const json = JSON.parse((await pegboard(dir, 'config', 'path', '--json', '--config', 'x.json')).out)
    expect(json).toEqual({ path: join(dir, 'x.json'), from: 'option', ignored: null, own })
  })
})
