import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { systemClock } from '../../src/core/clock.ts'
import { applyEdits, listUndo, readForEdit, undo } from '../../src/setup/file-edits.ts'
import { temporaryFolder } from '../app.ts'
import { terminal } from '../cli/terminal.ts'

const CURSOR = '.cursor/mcp.json'
const OWN = '.config/pegboard/mcp.config.json'
const SECRET = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const TEXT = JSON.stringify({
  mcpServers: { github: { command: 'npx', args: ['-y', 'github-server'], env: { GITHUB_TOKEN: SECRET } } },
})

/** A home folder with the file of one client. */
function home() {
  const dir = temporaryFolder()
  const file = join(dir, CURSOR)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, TEXT)
  return {
    dir,
    file,
    /** @param meanwhile runs when the person sees the preview and is asked */
    async init(meanwhile?: () => void) {
      const { io, out, err, input } = terminal(dir, meanwhile !== undefined)
      const world = {
        ...io,
        env: { ...io.env, PEGBOARD_KEYRING: 'off' },
        ...(meanwhile ? { terminal: { out: false, err: true } } : {}),
        stderr(text: string) {
          io.stderr(text)
          if (/Write \d+ files?\?/.test(text)) meanwhile?.()
        },
      }
      if (meanwhile) for (const answer of ['', '', '', '', 'y']) input.write(`${answer}\n`)
      const code = await run(meanwhile ? ['init'] : ['init', '--yes'], world)
      input.destroy()
      return { code, out: out(), err: err() }
    },
  }
}

describe.runIf(process.platform === 'linux')('pegboard init', () => {
  it('INIT-01: writes nothing if a client changed its file after the preview', async () => {
    const { dir, file, init } = home()
    const changed = TEXT.replace('github-server', 'other-server')
    const { code, err } = await init(() => writeFileSync(file, changed))
    expect([code, err]).toEqual([1, expect.stringContaining('E_EDIT_STALE')])
    expect(readFileSync(file, 'utf8')).toBe(changed)
    expect(existsSync(join(dir, OWN))).toBe(false)
  })

  it('INIT-01: does not undo over a later change of the client', async () => {
    const { dir, file, init } = home()
    expect((await init()).code).toBe(0)
    writeFileSync(file, '{"mine": true}')
    await expect(undo(join(dir, '.state'))).rejects.toMatchObject({ code: 'E_EDIT_STALE' })
    expect(readFileSync(file, 'utf8')).toBe('{"mine": true}')
  })

  it('INIT-02: leaves out a client whose file is a link', async () => {
    const { dir, file, init } = home()
    const target = join(dir, 'elsewhere.json')
    renameSync(file, target)
    symlinkSync(target, file)
    expect((await init()).err).toContain(`${file} is left out: `)
    expect(readFileSync(target, 'utf8')).toBe(TEXT)
  })

  it('INIT-02: writes nothing if the file becomes a link after the preview', async () => {
    const { dir, file, init } = home()
    const target = join(dir, 'elsewhere.json')
    const { code, err } = await init(() => {
      renameSync(file, target)
      symlinkSync(target, file)
    })
    expect([code, err]).toEqual([1, expect.stringContaining('E_EDIT_UNSAFE')])
    expect(readFileSync(target, 'utf8')).toBe(TEXT)
    expect(existsSync(join(dir, OWN))).toBe(false)
  })

  it('INIT-02: restores no backup through a link', async () => {
    const { dir, file, init } = home()
    expect((await init()).code).toBe(0)
    const target = join(dir, 'elsewhere.json')
    renameSync(file, target)
    const written = readFileSync(target, 'utf8')
    symlinkSync(target, file)
    await expect(undo(join(dir, '.state'), undefined, { force: true })).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
    expect(readFileSync(target, 'utf8')).toBe(written)
  })

  it.each(['undo', 'record', 'record.json', '1.before'])(
    'INIT-02: undoes nothing through a link at %s',
    async (linked) => {
      const { dir, file, init } = home()
      expect((await init()).code).toBe(0)
      const written = readFileSync(file, 'utf8')
      const stateDir = join(dir, '.state')
      const [{ id = '' } = {}] = await listUndo(stateDir)
      const record = join(stateDir, 'undo', id)
      const place = { undo: join(stateDir, 'undo'), record }[linked] ?? join(record, linked)
      const elsewhere = join(dir, 'elsewhere')
      renameSync(place, elsewhere)
      symlinkSync(elsewhere, place)
      await expect(undo(stateDir, undefined, { force: true })).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
      expect(readFileSync(file, 'utf8')).toBe(written)
    },
  )

  it('INIT-03: edits no file that every user of this machine can write', async () => {
    const { file, init } = home()
    chmodSync(file, 0o666)
    expect((await init()).err).toContain(`${file} is left out: `)
    expect(readFileSync(file, 'utf8')).toBe(TEXT)
  })

  it('INIT-04: shows no secret of a client, and does not copy it into the configuration', async () => {
    const { dir, init } = home()
    const { code, out, err } = await init()
    expect(code).toBe(0)
    expect(out + err).not.toContain(SECRET)
    expect(readFileSync(join(dir, OWN), 'utf8')).not.toContain(SECRET)
  })
})

it.runIf(process.platform !== 'win32')('INIT-02: creates no file through a link that leads nowhere', async () => {
  const dir = temporaryFolder()
  const link = join(dir, 'mcp.json')
  symlinkSync(join(dir, 'nowhere'), link)
  await expect(readForEdit(link)).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
  const edits = [{ path: link, before: undefined, after: '{}' }]
  await expect(
    applyEdits(edits, { stateDir: join(dir, 'state'), clock: systemClock, reason: 'test' }),
  ).rejects.toMatchObject({ code: 'E_EDIT_UNSAFE' })
  expect(existsSync(join(dir, 'nowhere'))).toBe(false)
})
