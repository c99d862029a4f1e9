import { mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Processes, ProgramStart } from 'pegboard'
import { describe, expect, it } from 'vitest'
import { createCapture } from '../../modules/shell/capture.ts'
import { Config, type Settings } from '../../modules/shell/config.ts'
import { bubblewrapArgs, sandboxPaths, seatbeltProfile, trySandbox } from '../../modules/shell/sandbox.ts'
import { temporaryFolder } from '../app.ts'

const settingsOf = (workspace: string, more: object = {}): Settings =>
  Config.parse({
    workspace,
    state_dir: join(workspace, 'state'),
    modules_dir: join(workspace, 'modules'),
    config_file: join(workspace, 'mcp.config.json'),
    ...more,
  })

/** A system that starts nothing, and reports how each start would have ended. */
const systemOf = (platform: string, code: number, started: string[][] = []): Processes =>
  ({
    platform,
    environment: () => ({ PATH: '/usr/bin' }),
    start: async ({ command, args = [] }: ProgramStart) => {
      started.push([command, ...args])
      const stream = { on: () => undefined, resume: () => undefined, end: () => undefined }
      return {
        stdin: stream,
        stdout: stream,
        stderr: stream,
        ended: Promise.resolve({ code, signal: null }),
        stop: async () => undefined,
      }
    },
  }) as unknown as Processes

describe('the sandbox of the shell', () => {
  it('is unavailable on Windows, whatever is installed', async () => {
    const started: string[][] = []
    expect(await trySandbox(systemOf('win32', 42, started), settingsOf(temporaryFolder()))).toEqual({
      reason: 'there is none for win32',
      detail: '',
    })
    expect(started).toEqual([])
  })

  it('is Seatbelt on macOS, if it works', async () => {
    const started: string[][] = []
    const settings = settingsOf(temporaryFolder())
    expect(await trySandbox(systemOf('darwin', 42, started), settings)).toMatchObject({ kind: 'seatbelt' })
    expect(started.map(([command, flag]) => [command, flag])).toEqual([['/usr/bin/sandbox-exec', '-p']])
    expect(await trySandbox(systemOf('darwin', 1), settings)).toMatchObject({
      reason: 'seatbelt does not work on this machine',
    })
  })

  it('denies by default, and hides paths inside writable folders last', () => {
    const profile = seatbeltProfile({
      writable: ['/w'],
      readable: ['/tools "x"'],
      hiddenFolders: ['/w/state'],
      hiddenFiles: ['/w/.env'],
      fixed: ['/w/.git/hooks'],
      absent: ['/w/.mcp.json'],
    }).split('\n')
    expect(profile.slice(0, 2)).toEqual(['(version 1)', '(deny default)'])
    expect(profile.slice(-5)).toEqual([
      '(allow file-read* file-write* (subpath "/w"))',
      '(deny file-write* (subpath "/w/.git/hooks") (subpath "/w/.mcp.json"))',
      '(deny file-read* file-write* (subpath "/w/state") (subpath "/w/.env"))',
      '(deny file-write-unlink (literal "/w/.git"))',
      '(deny network*)',
    ])
  })

  it('mounts hidden paths over writable ones, and those over its own /tmp', () => {
    const args = bubblewrapArgs(
      { writable: ['/tmp/w'], readable: [], hiddenFolders: ['/tmp/w/state'], hiddenFiles: ['/tmp/w/.env'], fixed: [] },
      '/tmp/w',
    ).join(' ')
    expect(args).toMatch(/^--unshare-all --die-with-parent --new-session --cap-drop ALL --ro-bind-try \/usr \/usr /)
    expect(args).toMatch(
      /--size \d+ --tmpfs \/tmp --bind \/tmp\/w \/tmp\/w --tmpfs \/tmp\/w\/state --ro-bind \/dev\/null \/tmp\/w\/\.env --remount-ro \/ --chdir \/tmp\/w --$/,
    )
    expect(args).not.toContain('--share-net')
  })

  it("hides keys and Pegboard's own files, and only existing ones", async () => {
    const dir = realpathSync(temporaryFolder())
    for (const name of ['state', 'modules', '.ssh', '.git/hooks', 'private', 'src'])
      mkdirSync(join(dir, name), { recursive: true })
    for (const name of ['.env', '.env.local', '.env.example', 'mcp.config.json', 'a.txt'])
      writeFileSync(join(dir, name), '')
    const walls = await sandboxPaths(settingsOf(dir, { denied_paths: ['private', 'absent', '/etc/passwd'] }))
    const below = (paths: readonly string[]): string[] => paths.map((path) => path.slice(dir.length + 1)).sort()
    expect(walls.writable).toEqual([dir])
    expect(below(walls.hiddenFolders)).toEqual(['.ssh', 'private', 'state'])
    expect(below(walls.hiddenFiles)).toEqual(['.env', '.env.local', 'mcp.config.json'])
    expect(below(walls.fixed)).toEqual(['.git', 'modules'])
  })
})

describe('captured output', () => {
  it('is complete if short, and otherwise head and tail', () => {
    const short = createCapture(8)
    short.add(Buffer.from('abcd'))
    short.add(Buffer.from('efgh'))
    expect([short.text(), short.truncated, short.bytes]).toEqual(['abcdefgh', false, 8])
    short.add(Buffer.from('ij'))
    expect([short.text(), short.truncated]).toEqual(['abcd\n… 2 bytes left out …\nghij', true])
    const long = createCapture(8)
    long.add(Buffer.from('0123456789'.repeat(10)))
    long.add(Buffer.from('x'))
    expect([long.text(), long.bytes]).toEqual(['0123\n… 93 bytes left out …\n789x', 101])
  })

  it('has no half characters at the cut', () => {
    const capture = createCapture(6)
    capture.add(Buffer.from('ä€€€€ö'))
    expect(capture.text()).toBe('ä\n… 10 bytes left out …\nö')
  })

  it('can be read from a position, as far as it was kept', () => {
    const capture = createCapture(8)
    capture.add(Buffer.from('abcd'))
    expect([capture.since(0), capture.since(2), capture.since(4)]).toEqual(['abcd', 'cd', ''])
    capture.add(Buffer.from('efgh'))
    expect([capture.since(2), capture.since(6), capture.since(8)]).toEqual(['cdefgh', 'gh', ''])
    capture.add(Buffer.from('ij'))
    expect([capture.since(2), capture.since(4), capture.since(7), capture.since(10)]).toEqual([
      'cd\n… 2 bytes left out …\nghij',
      '… 2 bytes left out …\nghij',
      'hij',
      '',
    ])
  })

  it('provides its last lines', () => {
    const capture = createCapture(100)
    capture.add(Buffer.from('1\n2\n3\n'))
    expect(capture.tail(2)).toBe('2\n3\n')
    capture.add(Buffer.from('4'))
    expect(capture.tail(2)).toBe('3\n4')
  })
})
