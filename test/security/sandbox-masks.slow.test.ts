import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { startAppWithClient } from './app-with-client.ts'

const sandboxed = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true']).status === 0
const isRoot = process.getuid?.() === 0

/** A root of the shell with a key that the sandbox hides. */
async function shell(config: object = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'work'))
  writeFileSync(join(dir, 'work/.env'), 'first-key')
  const one = await startAppWithClient({ shell: { config: { enabled: true, roots: ['work'], ...config } } }, { dir })
  return { ...one, at: (path: string) => join(dir, 'work', path) }
}

describe.runIf(sandboxed)('a key at the top of a root, while a command runs', () => {
  /** What a command prints that reads the key after the change. */
  async function reading(change: (at: (path: string) => string) => void): Promise<string> {
    const { call, at } = await shell()
    const cmd = 'touch ready; until [ -e go ]; do sleep 0.05; done; cat .env; echo end'
    const { task_id } = await call('shell.background_run', { command: cmd, shell: true })
    await expect.poll(() => existsSync(at('ready'))).toBe(true)
    change(at)
    writeFileSync(at('go'), '')
    await call('shell.task_wait', { task_id })
    const output = JSON.stringify(await call('shell.task_output', { task_id }))
    expect(output).toContain('end')
    return output
  }

  test('stays hidden if another program writes the file', async () => {
    expect(await reading((at) => writeFileSync(at('.env'), 'second-key'))).not.toContain('key')
  })

  // The kernel removes a mount on a file that is replaced in another mount namespace. docs/modules/shell.md names this gap.
  test('is visible if another program replaces the file by renaming another one', async () => {
    const shown = await reading((at) => {
      writeFileSync(at('.env.new'), 'second-key')
      renameSync(at('.env.new'), at('.env'))
    })
    expect(shown).toContain('second-key')
  })

  test('cannot be uncovered by the command itself', async () => {
    const { call } = await shell()
    const cmd = 'for c in "mv .env old" "rm -f .env" "umount .env" "ln -sf other .env"; do $c; done; cat .env; true'
    const { stdout, stderr } = await call('shell.bash', { cmd })
    expect(stdout + stderr).not.toContain('first-key')
    expect(stderr).toMatch(/busy/i)
  })
})

describe.runIf(sandboxed)('the repository at the top of a root', () => {
  const config = '[core]\n\tfsmonitor = touch PWNED\n\tworktree = ../..\n'

  /** The root after a command has run in it, and after its user has asked git for the status. */
  async function after(prepare: (dir: string, git: (...args: string[]) => void) => void, cmd: string) {
    const { call, at } = await shell({ env: { GIT_CONFIG_GLOBAL: '/dev/null' } })
    const work = at('.')
    const author = ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com']
    const git = (...args: string[]): void => void execFileSync('git', ['-C', work, ...author, ...args])
    git('init', '-q')
    git('commit', '-q', '--allow-empty', '-m', 'first')
    prepare(work, git)
    await call('shell.bash', { cmd: `${cmd}; true` })
    execFileSync('git', ['-C', work, 'status'])
    return { call, at }
  }

  test.each([
    ['its settings', `printf '${config}' >> .git/config`],
    [
      'another folder with settings',
      `mkdir -p e/objects e/refs; cp .git/HEAD e; printf '${config}' > e/config; echo ../e > .git/commondir`,
    ],
    [
      'a nested repository in its index',
      `git init -q e && cd e && git -c user.name=E -c user.email=e@example.com commit -q --allow-empty -m x && cd .. && git add e; printf '${config}' >> e/.git/config`,
    ],
  ])('makes git run nothing after a command has tried to write %s', async (_what, cmd) => {
    const { at, call } = await after(() => undefined, cmd)
    expect(existsSync(at('PWNED'))).toBe(false)
    expect(existsSync(at('e/PWNED'))).toBe(false)
    const { stdout } = await call('shell.bash', {
      cmd: 'git log --format=%s; git status --short; touch new && git diff',
    })
    expect(stdout).toContain('first')
  })

  test('may be a file, as in a worktree, which cannot be changed', async () => {
    const { call, at } = await shell()
    writeFileSync(at('.git'), 'gitdir: ../elsewhere\n')
    const { stdout, stderr } = await call('shell.bash', { cmd: 'cat .git; echo evil > .git; rm .git; true' })
    expect(stdout).toBe('gitdir: ../elsewhere\n')
    expect(stderr).toMatch(/Read-only file system[\s\S]*busy/)
  })

  test('does not stop commands if a file takes the place of a protected folder', async () => {
    const { call } = await shell()
    expect(await call('shell.bash', { cmd: 'touch .git .vscode' })).toMatchObject({ exit_code: 0 })
    expect(await call('shell.bash', { cmd: 'echo still here' })).toMatchObject({ stdout: 'still here\n' })
  })
})

describe.runIf(sandboxed)('a setuid program in the sandbox', () => {
  test('gets no rights: no_new_privs is set, and no capability can be had', async () => {
    const { call } = await shell()
    const { stdout } = await call('shell.bash', {
      cmd: 'grep -E "^(NoNewPrivs|CapEff|CapBnd|CapPrm)" /proc/self/status',
    })
    expect(stdout.replaceAll(/\s+/g, ' ').trim()).toBe(
      'CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1',
    )
  })

  // Only root can make a file that is setuid to another user.
  test.runIf(isRoot)('runs as the user who started it', async () => {
    const { call, at } = await shell()
    copyFileSync('/usr/bin/id', at('whoami'))
    chownSync(at('whoami'), 65_534, 65_534)
    chmodSync(at('whoami'), 0o6755)
    expect(execFileSync(at('whoami'), ['-u'], { encoding: 'utf8' })).toBe('65534\n')
    expect((await call('shell.bash', { cmd: './whoami -u' })).stdout).toBe('0\n')
  })
})
