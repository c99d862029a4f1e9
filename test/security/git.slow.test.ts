import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { startAppWithClient } from './app-with-client.ts'

const shell = { shell: { config: { enabled: true, allowed_commands: ['git'] } } }

test('git runs no program that a repository-like folder names', async () => {
  const { call, dir } = await startAppWithClient({ ...shell, filesystem: { config: { roots: ['{{workspace}}'] } } })
  const mark = join(dir, 'ran')
  const script = `#!/bin/sh\ntouch ${mark}\n`
  await call('filesystem.write', { path: 'trap/HEAD', content: 'ref: refs/heads/main\n' })
  await call('filesystem.write', {
    path: 'trap/config',
    content: `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ${dir}\n\tfsmonitor = "touch ${mark}; false"\n\tpager = touch ${mark}\n`,
  })
  for (const folder of ['objects', 'refs', 'hooks']) await call('filesystem.mkdir', { path: `trap/${folder}` })
  writeFileSync(join(dir, 'trap/hooks/post-index-change'), script, { mode: 0o755 })
  writeFileSync(join(dir, 'trap/hooks/pre-commit'), script, { mode: 0o755 })
  for (const args of [['status'], ['add', '-A'], ['commit', '-m', 'x'], ['log']])
    await call('shell.run', { command: 'git', args, cwd: 'trap' }).catch(() => undefined)
  expect(existsSync(mark)).toBe(false)
})

/** A repository in the folder `work`. */
function createRepository(dir: string) {
  const repository = join(dir, 'work')
  mkdirSync(repository)
  const git = (...args: string[]): void => void execFileSync('git', args, { cwd: repository, stdio: 'ignore' })
  git('init')
  git('config', 'user.email', 'a@b.test')
  git('config', 'user.name', 'a')
  return { repository, git }
}

test('git runs no hook, file monitor, editor or ext:: transport of a real repository', async () => {
  const { call, dir } = await startAppWithClient(shell)
  const mark = join(dir, 'ran')
  const { repository, git } = createRepository(dir)
  git('config', 'core.fsmonitor', `touch ${mark}; false`)
  git('config', 'core.editor', `touch ${mark}; false`)
  git('config', 'protocol.ext.allow', 'always')
  git('remote', 'add', 'evil', `ext::sh -c "touch ${mark}"`)
  writeFileSync(join(repository, '.git/hooks/pre-commit'), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  writeFileSync(join(repository, 'a.txt'), 'a')
  for (const args of [['status'], ['add', '-A'], ['commit', '-m', 'x'], ['commit', '--amend'], ['fetch', 'evil']])
    await call('shell.run', { command: 'git', args, cwd: 'work' }).catch(() => undefined)
  expect(existsSync(mark)).toBe(false)
  expect(execFileSync('git', ['log', '--oneline'], { cwd: repository, encoding: 'utf8' })).toMatch(/x\n$/)
})

const sandboxed = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true']).status === 0

test.runIf(sandboxed)('programs of a nested repository configuration run only in the sandbox', async () => {
  const { call, dir } = await startAppWithClient(shell)
  const outside = temporaryFolder()
  const run = (name: string): string => `sh -c "touch ${join(outside, name)} made-${name}; cat"`
  const { repository, git } = createRepository(dir)
  writeFileSync(join(repository, 'a.txt'), 'a')
  git('add', '-A')
  git('commit', '-m', 'x')
  git('config', 'filter.x.clean', run('filter'))
  git('config', 'diff.x.textconv', run('textconv'))
  git('config', 'remote.origin.url', '.')
  git('config', 'remote.origin.receivepack', run('receivepack'))
  writeFileSync(join(repository, '.gitattributes'), '*.txt filter=x diff=x\n')
  writeFileSync(join(repository, 'a.txt'), 'b')
  for (const args of [['status'], ['diff'], ['push', 'origin', 'HEAD']])
    await call('shell.run', { command: 'git', args, cwd: 'work' }).catch(() => undefined)
  expect(readdirSync(outside)).toEqual([])
  // They did run in the sandbox, where they cause no harm.
  expect(readdirSync(repository)).toContain('made-filter')
})

test('git outside the sandbox checks no signature with a program that a repository names', async () => {
  const { call, dir } = await startAppWithClient({
    shell: { config: { enabled: true, allowed_commands: [{ command: 'git', sandbox: false }] } },
  })
  const mark = join(dir, 'ran')
  const repository = join(dir, 'work')
  mkdirSync(repository)
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: repository, encoding: 'utf8' })
  git('init', '-q')
  writeFileSync(join(dir, 'evil'), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  const tree = git('write-tree').trim()
  const who = 'a <a@b.test> 1700000000 +0000'
  const signature = '-----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----'
  writeFileSync(join(repository, 'commit'), `tree ${tree}\nauthor ${who}\ncommitter ${who}\ngpgsig ${signature}\n\nx\n`)
  git('update-ref', 'HEAD', git('hash-object', '-t', 'commit', '-w', 'commit').trim())
  git('config', 'log.showSignature', 'true')
  for (const key of ['gpg.program', 'gpg.openpgp.program']) git('config', key, join(dir, 'evil'))
  for (const args of [['log'], ['log', '--show-signature'], ['verify-commit', 'HEAD']])
    await call('shell.run', { command: 'git', args, cwd: 'work' }).catch(() => undefined)
  expect(existsSync(mark)).toBe(false)
})

const outside = { shell: { config: { enabled: true, allowed_commands: [{ command: 'git', sandbox: false }] } } }
const ME = {
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@b.test',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@b.test',
}

/** A repository with one commit in a folder that tools can write. */
async function repository(config: object = outside) {
  const all = await startAppWithClient(config as typeof outside)
  const folder = join(all.dir, 'work')
  mkdirSync(folder)
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: folder, encoding: 'utf8', env: { ...process.env, ...ME }, stdio: 'pipe' })
  git('init', '-q')
  git('config', 'user.name', 'a')
  git('config', 'user.email', 'a@b.test')
  writeFileSync(join(folder, 'a.txt'), 'a')
  git('add', '-A')
  git('commit', '-qm', 'first')
  const run = (...args: string[]) => all.call('shell.run', { command: 'git', args, cwd: 'work' })
  const refused = (...args: string[]) => all.fails('shell.run', { command: 'git', args, cwd: 'work' })
  return { ...all, folder, git, run, refused, mark: join(all.dir, 'ran') }
}

test('git outside the sandbox refuses a repository that names programs, and runs none', async () => {
  const { git, refused, folder, mark } = await repository()
  writeFileSync(join(folder, '.gitattributes'), '*.txt filter=x diff=x merge=x\n')
  writeFileSync(join(folder, 'a.txt'), 'b')
  writeFileSync(join(folder, 'more'), `[filter "x"]\n\tclean = touch ${mark}\n`)
  const bad = `touch ${mark}; cat`
  for (const [key, value = bad] of [
    ['filter.x.clean'],
    ['filter.x.smudge'],
    ['filter.x.process'],
    ['filter.lfs.clean', 'git-lfs clean -- %f; true'],
    ['diff.external'],
    ['diff.x.command'],
    ['diff.x.textconv'],
    ['merge.x.driver'],
    ['alias.st', `!${bad}`],
    ['alias.st', `-c diff.external=${mark} diff`],
    ['credential.helper', `!${bad}`],
    ['credential.https://a.test.helper', bad],
    ['remote.origin.receivepack'],
    ['remote.origin.uploadpack'],
    ['remote.origin.vcs', 'ext'],
    ['tar.x.command'],
    ['trailer.x.command'],
    ['trailer.x.cmd'],
    ['include.path', '../more'],
    ['includeIf.gitdir:/.path', '../more'],
    ['pager.log'],
    ['core.askPass', mark],
    ['submodule.x.update', `!${bad}`],
    ['difftool.x.cmd'],
    ['mergetool.x.cmd'],
    ['browser.x.cmd'],
    ['hook.x.command'],
    ['sendemail.smtpServer', mark],
    ['http.cookieFile', mark],
    ['lfs.customtransfer.x.path', mark],
    ['core.worktree', '/'],
  ] as const) {
    git('config', key, value)
    for (const args of key === 'filter.x.clean' ? [['status'], ['log', '-p'], ['diff']] : [['status']]) {
      const { code, message } = await refused(...args)
      expect([key, code]).toEqual([key, 'E_DENIED_BY_POLICY'])
      expect(message.toLowerCase()).toContain(key.toLowerCase())
    }
    // Without following links.
    execFileSync('git', ['config', '--file', join(folder, '.git/config'), '--unset', key])
  }
  expect(existsSync(mark)).toBe(false)
})

test('git outside the sandbox works in ordinary repositories, and where there is none', async () => {
  const { git, run, call, folder } = await repository()
  for (const [key, value] of [
    ['remote.origin.url', 'https://git.test/a.git'],
    ['remote.origin.fetch', '+refs/heads/*:refs/remotes/origin/*'],
    ['remote.origin.partialclonefilter', 'blob:none'],
    ['branch.main.merge', 'refs/heads/main'],
    ['core.hooksPath', '.husky/_'],
    ['core.fsmonitor', 'true'],
    ['core.editor', 'vim'],
    ['core.autocrlf', 'input'],
    ['filter.lfs.clean', 'git-lfs clean -- %f'],
    ['filter.lfs.smudge', 'git-lfs smudge -- %f'],
    ['filter.lfs.process', 'git-lfs filter-process'],
    ['filter.lfs.required', 'true'],
    ['diff.x.xfuncname', '^fn'],
    ['pull.rebase', 'true'],
    ['submodule.x.update', 'checkout'],
    ['gitflow.branch.master', 'main'],
  ] as const)
    git('config', key, value)
  git('worktree', 'add', '-q', '../tree')
  writeFileSync(join(folder, 'b.txt'), 'b')
  expect(await run('add', '-A')).toMatchObject({ exit_code: 0 })
  expect(await run('commit', '-qm', 'second')).toMatchObject({ exit_code: 0 })
  expect((await run('log', '--format=%s')).stdout).toBe('second\nfirst\n')
  const here = (cwd: string, ...args: string[]) => call('shell.run', { command: 'git', args, cwd })
  expect((await here('tree', 'log', '--format=%s')).stdout).toBe('first\n')
  expect(await here('.', 'init', '-q', 'new')).toMatchObject({ exit_code: 0 })
  expect((await here('.', '--version')).stdout).toMatch(/^git version/)
})

test('git outside the sandbox names no file that other tools cannot read', async () => {
  const { run, refused, folder, dir } = await repository()
  writeFileSync(join(dir, 'mcp.config.json'), 'canary')
  writeFileSync(join(folder, '.env'), 'canary')
  writeFileSync(join(folder, 'message'), 'second')
  const elsewhere = temporaryFolder()
  const key = join(elsewhere, 'key')
  writeFileSync(key, 'canary')
  for (const args of [
    ['diff', '--no-index', key, 'a.txt'],
    ['diff', '.env', 'a.txt'],
    ['commit', '--allow-empty', '-F', key],
    ['commit', '--allow-empty', `-qF${key}`],
    ['commit', '--allow-empty', '-qF.env'],
    ['commit', '--allow-empty', '-F', '../mcp.config.json'],
    ['commit', '--allow-empty', `--file=${key}`],
    ['add', `--pathspec-from-file=${key}`],
    ['blame', '--contents', key, 'a.txt'],
    ['init', join(elsewhere, 'new')],
    ['worktree', 'add', join(elsewhere, 'tree')],
  ])
    expect(await refused(...args), args.join(' ')).toMatchObject({
      code: expect.stringMatching(/^E_PATH_(OUTSIDE_ROOT|DENIED)$/),
    })
  expect(readdirSync(elsewhere)).toEqual(['key'])
  expect(await run('commit', '--allow-empty', '-qF', 'message')).toMatchObject({ exit_code: 0 })
  expect((await run('log', '-1', '--format=%s', 'HEAD', '--', '.')).exit_code).toBe(0)
  expect((await run('log', '-1', '--format=%s')).stdout).toBe('second\n')
})

test('git outside the sandbox refuses a repository with a submodule that names programs or has hooks', async () => {
  const { git, run, refused, folder, dir, mark } = await repository()
  const inner = join(dir, 'inner')
  mkdirSync(inner)
  const there = (...args: string[]) =>
    execFileSync('git', args, { cwd: inner, env: { ...process.env, ...ME }, stdio: 'pipe' })
  there('init', '-q')
  there('commit', '-q', '--allow-empty', '-m', 'inner')
  git('-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', inner, 'sub')
  git('commit', '-qm', 'with a submodule')
  expect(await run('status')).toMatchObject({ exit_code: 0 })
  const config = join(folder, '.git/modules/sub/config')
  execFileSync('git', ['config', '--file', config, 'core.fsmonitor', `touch ${mark}; false`])
  expect((await refused('status')).message).toContain('core.fsmonitor')
  execFileSync('git', ['config', '--file', config, '--unset', 'core.fsmonitor'])
  writeFileSync(join(folder, '.git/modules/sub/hooks/post-index-change'), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  expect((await refused('status')).code).toBe('E_DENIED_BY_POLICY')
  expect(existsSync(mark)).toBe(false)
})

test('git outside the sandbox opens no repository given by path or by a file of the workspace', async () => {
  const { git, refused, call, run, dir, mark } = await repository()
  git('init', '-q', '--bare', join(dir, 'evil.git'))
  writeFileSync(join(dir, 'evil.git/hooks/pre-receive'), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  git('remote', 'add', 'evil', '../evil.git')
  for (const to of ['evil', '../evil.git', `file://${dir}/evil.git`]) {
    const { exit_code, stderr } = await run('push', to, 'HEAD').catch((refusal) => refusal.data)
    expect([to, exit_code === 0, stderr]).toEqual([to, false, expect.stringContaining('not allowed')])
  }
  expect(existsSync(mark)).toBe(false)
  const elsewhere = temporaryFolder()
  execFileSync('git', ['init', '-q'], { cwd: elsewhere })
  mkdirSync(join(dir, 'trap'))
  writeFileSync(join(dir, 'trap/.git'), `gitdir: ${elsewhere}/.git\n`)
  await expect(call('shell.run', { command: 'git', args: ['status'], cwd: 'trap' })).rejects.toMatchObject({
    code: 'E_DENIED_BY_POLICY',
  })
  git('config', 'core.worktree', elsewhere)
  expect((await refused('status')).message).toContain('core.worktree')
})

test('git outside the sandbox resists unusual names, and ignores a repository that no tool can write', async () => {
  const { git, folder, dir, mark, call, fails } = await repository()
  // An ambiguous path.
  const odd = `${dir}/odd\n${folder}`
  mkdirSync(odd, { recursive: true })
  for (const at of [odd, folder]) execFileSync('git', ['init', '-q'], { cwd: at })
  execFileSync('git', ['config', 'core.fsmonitor', 'true'], { cwd: odd })
  execFileSync('git', ['config', 'diff.external', `touch ${mark}; true`], { cwd: odd })
  const cwd = odd.slice(dir.length + 1)
  expect((await fails('shell.run', { command: 'git', args: ['status'], cwd })).code).toBe('E_DENIED_BY_POLICY')
  git('config', 'filter.x.clean', 'cat')
  const inner = { shell: { config: { ...outside.shell.config, roots: ['inner'] } } }
  mkdirSync(join(folder, 'inner'))
  const below = await startAppWithClient(inner, { settings: {}, dir: folder })
  expect(await below.call('shell.run', { command: 'git', args: ['status', '--short'] })).toMatchObject({ exit_code: 0 })
  expect(await call('shell.run', { command: 'git', args: ['--version'] })).toMatchObject({ exit_code: 0 })
  expect(existsSync(mark)).toBe(false)
})
