import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { served } from './served.ts'

const shell = { shell: { config: { enabled: true, allowed_commands: ['git'] } } }

test('git runs no program that a folder shaped like a repository names', async () => {
  const { call, dir } = await served({ ...shell, filesystem: { config: { roots: ['{{workspace}}'] } } })
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

test('git runs no hook, file monitor, editor or ext:: transport of a real repository', async () => {
  const { call, dir } = await served(shell)
  const mark = join(dir, 'ran')
  const repository = join(dir, 'work')
  mkdirSync(repository)
  const git = (...args: string[]): void => void execFileSync('git', args, { cwd: repository, stdio: 'ignore' })
  git('init')
  git('config', 'user.email', 'a@b.test')
  git('config', 'user.name', 'a')
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

test.runIf(sandboxed)('what the configuration of a nested repository names runs only in the sandbox', async () => {
  const { call, dir } = await served(shell)
  const outside = temporaryFolder()
  const run = (name: string): string => `sh -c "touch ${join(outside, name)} made-${name}; cat"`
  const repository = join(dir, 'work')
  mkdirSync(repository)
  const git = (...args: string[]): void => void execFileSync('git', args, { cwd: repository, stdio: 'ignore' })
  git('init')
  git('config', 'user.email', 'a@b.test')
  git('config', 'user.name', 'a')
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
  // They did run, where they do no harm.
  expect(readdirSync(repository)).toContain('made-filter')
})

test('git outside the sandbox checks no signature with a program that a repository names', async () => {
  const { call, dir } = await served({
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
