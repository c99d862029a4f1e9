import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { diffOf } from '../../src/setup/edit-diff.ts'
import { applyEdits, listUndo, readForEdit, undo } from '../../src/setup/file-edits.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

const clock = createManualClock(Date.UTC(2026, 10, 28, 12))

function scene() {
  const dir = temporaryFolder()
  const stateDir = join(dir, 'state')
  const file = (name: string, text?: string | Uint8Array): string => {
    const path = join(dir, name)
    if (text !== undefined) writeFileSync(path, text)
    return path
  }
  const apply = (edits: Parameters<typeof applyEdits>[0]) => applyEdits(edits, { stateDir, clock, reason: 'test' })
  return { dir, stateDir, file, apply }
}

const isPosix = process.platform !== 'win32'

describe('applyEdits and undo', () => {
  it('write files, keep their modes, and give back every byte', async () => {
    const { dir, stateDir, file, apply } = scene()
    const a = file('a.json', '\ufeff{"a":1}\r\n')
    const made = join(dir, 'new/deep/b.json')
    if (isPosix) chmodSync(a, 0o640)
    const applied = await apply([
      { path: a, before: await readForEdit(a), after: '{"a":2}' },
      { path: made, before: undefined, after: '{}' },
    ])
    expect(readFileSync(a, 'utf8')).toBe('{"a":2}')
    expect(readFileSync(made, 'utf8')).toBe('{}')
    if (isPosix) expect([a, made].map((one) => statSync(one).mode & 0o777)).toEqual([0o640, 0o600])
    expect(await listUndo(stateDir)).toEqual([
      { id: applied.id, at: '2026-11-28T12:00:00.000Z', reason: 'test', undone: false, files: [a, made] },
    ])

    expect(await undo(stateDir)).toEqual({ ...applied, reason: 'test' })
    expect(readFileSync(a)).toEqual(Buffer.from('\ufeff{"a":1}\r\n'))
    if (isPosix) expect(statSync(a).mode & 0o777).toBe(0o640)
    expect(existsSync(join(dir, 'new'))).toBe(false)
    await expect(undo(stateDir)).rejects.toMatchObject({ code: 'E_UNDO_MISSING' })
    await expect(undo(stateDir, applied.id)).rejects.toMatchObject({ code: 'E_UNDO_MISSING' })
  })

  it('keep backups where only this user can read them', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a', 'old')
    const { id } = await apply([{ path: a, before: 'old', after: 'new' }])
    const own = join(stateDir, 'undo', id)
    if (isPosix) {
      expect([join(stateDir, 'undo'), own].map((one) => statSync(one).mode & 0o777)).toEqual([0o700, 0o700])
      expect(readdirSync(own).map((one) => statSync(join(own, one)).mode & 0o777)).toEqual([0o600, 0o600])
    }
    expect(readFileSync(join(own, '0.before'), 'utf8')).toBe('old')
  })

  it('refuse a preview that is not true any more, and write none of the files', async () => {
    const { dir, stateDir, file, apply } = scene()
    const a = file('a', '1')
    const b = file('b', '1')
    const stale = [
      { path: a, before: '1', after: '2' },
      { path: join(dir, 'made/c'), before: undefined, after: '2' },
      { path: b, before: 'other', after: '2' },
    ]
    await expect(apply(stale)).rejects.toMatchObject({
      code: 'E_EDIT_STALE',
      message: `${b} changed since the change was shown, so nothing was written.`,
    })
    await expect(apply([{ path: a, before: undefined, after: '2' }])).rejects.toMatchObject({ code: 'E_EDIT_STALE' })
    expect(readFileSync(a, 'utf8')).toBe('1')
    expect(readdirSync(dir).sort()).toEqual(['a', 'b', 'state'])
    expect(await listUndo(stateDir)).toEqual([])
  })

  it('do not undo over later changes of a file, unless told', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a', '1')
    const first = await apply([{ path: a, before: '1', after: '2' }])
    clock.pass(1_000)
    await apply([{ path: a, before: '2', after: '3' }])
    await expect(undo(stateDir, first.id)).rejects.toMatchObject({ code: 'E_EDIT_STALE' })
    expect(readFileSync(a, 'utf8')).toBe('3')
    await undo(stateDir)
    await undo(stateDir)
    expect(readFileSync(a, 'utf8')).toBe('1')
    const last = await apply([{ path: a, before: '1', after: '4' }])
    writeFileSync(a, 'mine')
    await expect(undo(stateDir)).rejects.toMatchObject({ code: 'E_EDIT_STALE' })
    await undo(stateDir, last.id, { force: true })
    expect(readFileSync(a, 'utf8')).toBe('1')
  })

  it('say whether a later change of Pegboard or an edit by hand prevents undoing', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a', '1')
    const first = await apply([{ path: a, before: '1', after: '2' }])
    clock.pass(1_000)
    const second = await apply([{ path: a, before: '2', after: '3' }])
    await expect(undo(stateDir, first.id)).rejects.toMatchObject({
      code: 'E_EDIT_STALE',
      message: `Pegboard changed ${a} again later, so nothing was undone.`,
      hint: `Undo the later change first: pegboard undo ${second.id}. Or add --force, which discards everything that changed since.`,
    })
    await undo(stateDir, second.id)
    writeFileSync(a, 'mine')
    await expect(undo(stateDir, first.id)).rejects.toMatchObject({
      code: 'E_EDIT_STALE',
      message: `${a} was edited after this change, so nothing was undone.`,
      hint: 'To restore the old file anyway, add --force. This discards the edits.',
    })
  })

  it('undo the newest change of one configuration', async () => {
    const { stateDir, file } = scene()
    const [one, other, client] = [file('one', '1'), file('other', '1'), file('client', '1')]
    const apply = (config: string, path: string) =>
      applyEdits([{ path, before: '1', after: '2' }], { stateDir, clock, reason: 'test', config })
    const texts = (): string[] => [one, other, client].map((path) => readFileSync(path, 'utf8'))
    for (const [config, path] of [
      [one, one],
      [one, client],
      [other, other],
    ] as const) {
      await apply(config, path)
      clock.pass(1_000)
    }
    expect(texts()).toEqual(['2', '2', '2'])
    await undo(stateDir, undefined, { config: one })
    expect(texts()).toEqual(['2', '2', '1'])
    await undo(stateDir, undefined, { config: one })
    expect(texts()).toEqual(['1', '2', '1'])
    await expect(undo(stateDir, undefined, { config: one })).rejects.toMatchObject({
      code: 'E_UNDO_MISSING',
      message: `There is no change of ${one} to undo.`,
      hint: 'To undo a change of another configuration, find its id with pegboard undo --list, then run pegboard undo ID.',
    })
    await undo(stateDir)
    expect(texts()).toEqual(['1', '1', '1'])
  })

  it('undo what a killed process had written only in part', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a', '1')
    const b = file('b', '1')
    await apply([a, b].map((path) => ({ path, before: '1', after: '2' })))
    writeFileSync(b, '1')
    await undo(stateDir)
    expect([a, b].map((path) => readFileSync(path, 'utf8'))).toEqual(['1', '1'])
  })

  it('undo the newest of several changes in one second', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a.json', '0')
    for (const after of ['1', '2', '3', '4', '5', '6']) {
      await apply([{ path: a, before: await readForEdit(a), after }])
      clock.pass(1)
    }
    for (const before of ['5', '4', '3', '2', '1', '0']) {
      await undo(stateDir)
      expect(readFileSync(a, 'utf8')).toBe(before)
    }
  })

  it('keep the last 50 changes', async () => {
    const { stateDir, file, apply } = scene()
    const a = file('a', '0')
    const { id } = await apply([{ path: a, before: '0', after: '1' }])
    const folder = join(stateDir, 'undo')
    const record = readFileSync(join(folder, id, 'record.json'), 'utf8')
    for (let at = 10; at < 60; at++) {
      const older = `202501${at}T000000Z-00000000`
      mkdirSync(join(folder, older))
      writeFileSync(join(folder, older, 'record.json'), record.replace(id, older))
    }
    await apply([{ path: a, before: '1', after: '2' }])
    const kept = await listUndo(stateDir)
    expect(kept).toHaveLength(50)
    expect(kept[0]?.id).toBe('20250112T000000Z-00000000')
  })
})

describe('files that are not edited', () => {
  it.runIf(isPosix)('symbolic links, also those put in place of a file after the preview', async () => {
    const { dir, file, apply } = scene()
    const target = file('target', 'text')
    const link = join(dir, 'link')
    symlinkSync(target, link)
    await expect(readForEdit(link)).rejects.toMatchObject({
      code: 'E_EDIT_UNSAFE',
      message: `${link} is a symbolic link, so it is not edited.`,
    })
    await expect(apply([{ path: link, before: 'text', after: 'new' }])).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
    symlinkSync(join(dir, 'nowhere'), join(dir, 'dangling'))
    await expect(apply([{ path: join(dir, 'dangling'), before: undefined, after: 'new' }])).rejects.toMatchObject({
      code: 'E_EDIT_UNSAFE',
    })
    expect(readFileSync(target, 'utf8')).toBe('text')
  })

  it.runIf(isPosix)('files and folders that other users can write', async () => {
    const { dir, file, apply } = scene()
    const open = file('open', 'text')
    chmodSync(open, 0o666)
    mkdirSync(join(dir, 'shared'))
    const inside = file('shared/file', 'text')
    chmodSync(join(dir, 'shared'), 0o777)
    for (const path of [open, inside])
      await expect(apply([{ path, before: 'text', after: 'new' }])).rejects.toMatchObject({
        code: 'E_EDIT_UNSAFE',
        message: expect.stringContaining('every user of this machine can write it; run chmod o-w'),
      })
    await expect(
      apply([{ path: join(dir, 'shared/new/file'), before: undefined, after: 'new' }]),
    ).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
    expect([open, inside].map((path) => readFileSync(path, 'utf8'))).toEqual(['text', 'text'])
  })

  it('folders, huge files and files that are not UTF-8', async () => {
    const { dir, file } = scene()
    mkdirSync(join(dir, 'folder'))
    const huge = file('huge', '')
    truncateSync(huge, 17 * 1024 * 1024)
    const latin = file('latin', Buffer.from([0x22, 0xe9, 0x22]))
    for (const path of [join(dir, 'folder'), huge, latin])
      await expect(readForEdit(path)).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
    expect(await readForEdit(join(dir, 'missing'))).toBeUndefined()
    expect(await readForEdit(join(latin, 'below a file')).catch((error) => error.code)).toBe('E_EDIT_UNSAFE')
  })
})

describe('diffOf', () => {
  it('shows changed lines with their surroundings', () => {
    expect(
      diffOf([
        { path: '/home/me/a.json', before: '{\n  "a": 1,\n  "b": 2\n}\n', after: '{\n  "a": 1,\n  "b": 3\n}\n' },
        { path: '/home/me/same', before: 'x', after: 'x' },
        { path: '/home/me/new', before: undefined, after: 'text\n' },
      ]),
    ).toBe(`--- /home/me/a.json
+++ /home/me/a.json
@@ -1,4 +1,4 @@
 {
   "a": 1,
-  "b": 2
+  "b": 3
 }
--- /home/me/new
+++ /home/me/new
@@ -1,0 +1,1 @@
+text
`)
  })

  it('hides secrets in variables, headers, arguments and addresses', () => {
    const servers = {
      env: { BRAVE_KEY: 'abcdefgh', PASSWORD: 'pass"word', NODE_ENV: 'production', KEY_FILE: '/etc/key' },
      args: ['-y', 'a-server', '--api-key', 'plainvalue', '--token=othervalue', 'postgres://me:hunter2@host/db'],
      headers: { Authorization: 'Bearer opaque-value', 'X-Api-Key': 'headervalue' },
      url: 'https://host/mcp?api_key=queryvalue&page=2',
    }
    const shown = diffOf([{ path: '/a', before: undefined, after: JSON.stringify(servers, null, 2) }])
    for (const secret of ['abcdefgh', 'word', 'plainvalue', 'othervalue', 'hunter2', 'opaque-value', 'headervalue'])
      expect(shown.replaceAll('PASSWORD', '')).not.toContain(secret)
    expect(shown).not.toContain('queryvalue')
    for (const kept of ['production', '/etc/key', 'a-server', 'page=2', 'postgres://me:']) expect(shown).toContain(kept)
    expect(diffOf([{ path: '/a', before: undefined, after: '{"A_TOKEN": "${keyring:A_TOKEN}"}' }])).toContain(
      '+{"A_TOKEN": "${keyring:A_TOKEN}"}',
    )
    expect(diffOf([{ path: '/a', before: 'x', after: 'told y' }], ['told'])).toContain('+[redacted] y')
  })
})
