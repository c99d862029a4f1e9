import { execFileSync, type StdioOptions, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { Client } from '@modelcontextprotocol/client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { temporaryFolder } from '../app.ts'
import { StreamTransport } from '../client.ts'
import { serve } from '../modules/web-servers.ts'
import { cli, gone, place, readPid } from '../process.ts'
import { startAppWithClient } from './app-with-client.ts'
import { soonest } from './lag.ts'

const POSIX = process.platform !== 'win32'
const sandboxed = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true']).status === 0

/** A workspace with the module enabled. */
async function open(config: Record<string, unknown> = {}, env: Record<string, string> = {}) {
  const dir = temporaryFolder()
  const all = await startAppWithClient(
    { shell: { config: { enabled: true, ...config } } },
    { dir, env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), ...env } },
  )
  const full = (tool: string): string => `shell.${tool}`
  return {
    ...all,
    call: (tool: string, input: unknown = {}) => all.call(full(tool), input),
    fails: (tool: string, input: unknown = {}) => all.fails(full(tool), input),
  }
}

/** The same in a folder without files of Pegboard. */
async function openBelow(config: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  const opened = await open({ roots: [dir], ...config })
  return { ...opened, dir }
}

/** The processes of a group, without zombies. */
const membersOf = (group: number): readonly string[] =>
  execFileSync('ps', ['-A', '-o', 'pgid=,stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => new RegExp(`^\\s*${group}\\s+[^Z]`).test(line))

describe.runIf(POSIX)('commands', () => {
  test('SH-01: without being enabled the module has no tools, and a call gets the answer of an unknown tool', async () => {
    const off = await startAppWithClient({ shell: { config: { allowed_commands: ['echo'] } } })
    const names = (await off.client.listTools()).tools.map(({ name }) => name)
    expect(names.filter((name) => name.startsWith('shell'))).toEqual([])
    const told = async (name: string): Promise<string> => {
      const { code, message, hint } = await off.fails(name, { cmd: 'true' })
      return `${code} ${message} ${hint}`.replaceAll(name.split('.')[1] as string, '<name>')
    }
    for (const name of ['shell.bash', 'shell.run', 'shell.script', 'shell.background_run'])
      expect(await told(name)).toBe(await told('shell.qqqq'))
    expect(await told('shell.bash')).toMatch(/^E_NOT_FOUND Tool 'shell__<name>' not found\./)
    const view = off.app.view(localCaller)
    expect(view.owners.map(({ id }) => id)).not.toContain('shell')
    // The operator learns the setting.
    expect(view.hidden.get('shell.bash')).toMatchObject({
      kind: 'denied',
      stage: 'switch',
      reason: 'set modules.shell.config.enabled to true',
    })
    const enabled = await open()
    expect(enabled.app.view(localCaller).hidden.get('shell.run')?.reason).toBe(
      'name programs in modules.shell.config.allowed_commands',
    )
  })

  test('SH-02: allowed commands run, and the error for others lists the allowed ones', async () => {
    const { call, fails, dir } = await open({ allowed_commands: ['git log', 'git --version', 'echo'] })
    execFileSync('git', ['init', '-q', dir])
    const author = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
    execFileSync('git', ['-C', dir, ...author, 'commit', '-q', '--allow-empty', '-m', 'The first of all'])
    expect(await call('run', { command: 'git', args: ['log', '--oneline'] })).toMatchObject({
      exit_code: 0,
      stdout: expect.stringMatching(/^[0-9a-f]+ The first of all\n$/),
    })
    expect(await call('run', { command: 'git', args: ['--version'] })).toEqual({
      exit_code: 0,
      stdout: expect.stringMatching(/^git version \d/),
      stderr: '',
      duration_ms: expect.any(Number),
      timed_out: false,
      truncated: false,
    })
    expect(await fails('run', { command: 'rm', args: ['x'] })).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: "'rm x' is not an allowed command.",
      hint: 'Allowed are: git log, git --version, echo (modules.shell.config.allowed_commands).',
    })
    for (const command of ['/bin/echo', './echo', '../echo'])
      expect(await fails('run', { command })).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(await fails('run', { command: 'git', args: ['push'] })).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(await fails('run', { command: 'echo hello; id' })).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: expect.stringContaining('is a command line, but run starts no shell'),
    })
  })

  test('SH-03: arguments are passed literally, without a shell', async () => {
    const { call, fails } = await open({ allowed_commands: ['printf'] })
    const args = ['; rm -rf /', '$(id)', '`id`', '| cat', 'a\nb', '*', '$HOME', '"', "'", '']
    const { stdout } = await call('run', { command: 'printf', args: ['[%s]', ...args] })
    expect(stdout).toBe(args.map((one) => `[${one}]`).join(''))
    expect(await fails('run', { command: 'printf', args: ['a\0b'] })).toMatchObject({ code: 'E_VALIDATION' })
  })

  test('SH-05: scripts are rejected without a sandbox', async () => {
    const bin = temporaryFolder()
    symlinkSync('/bin/bash', join(bin, 'bash'))
    const { fails, dir } = await open({}, { PATH: bin })
    for (const [action, input] of [
      ['bash', { cmd: 'touch ran' }],
      ['script', { content: 'touch ran' }],
      ['background_run', { command: 'touch ran', shell: true }],
    ] as const)
      expect(await fails(action, input)).toMatchObject({
        code: 'E_SANDBOX_UNAVAILABLE',
        message: expect.stringContaining('bubblewrap (bwrap) is not installed'),
        hint: expect.stringContaining('modules.shell.config.sandbox'),
      })
    expect(() => readFileSync(join(dir, 'ran'))).toThrow()
  })

  test.runIf(sandboxed)(
    'SH-07: a script sees the system and the workspace, and nothing else of this machine',
    async () => {
      const canary = join(temporaryFolder(), 'canary.txt')
      writeFileSync(canary, 'canary-content')
      const { call, fails, dir } = await openBelow()
      writeFileSync(join(dir, 'a.txt'), 'mine\n')
      const error = await fails('bash', { cmd: `cat a.txt; cat ${canary}` })
      expect(error.data).toMatchObject({ stdout: 'mine\n', stderr: expect.stringContaining('No such file') })
      for (const cmd of [
        'cat /etc/shadow',
        `echo x > ${canary}`,
        'echo x > /usr/planted',
        'ls /root /home',
        'echo x > /etc/planted',
      ])
        expect(await fails('bash', { cmd }), cmd).toMatchObject({ code: 'E_TOOL_FAILED' })
      expect(readFileSync(canary, 'utf8')).toBe('canary-content')
      // Root can write there without capabilities, so this proves nothing elsewhere.
      const kernel =
        'for f in $(find /proc -maxdepth 4 -type f -not -path "/proc/[0-9]*" 2>/dev/null); do test -w $f && echo $f; done; true'
      expect(await call('bash', { cmd: kernel })).toMatchObject({ stdout: '' })
      await call('bash', { cmd: 'echo made > b.txt; echo t > /tmp/t; cat /tmp/t' })
      expect(readFileSync(join(dir, 'b.txt'), 'utf8')).toBe('made\n')
    },
  )

  test('SH-09: a command over its time limit ends with its child processes [DIG-94]', async () => {
    const { fails, dir } = await open({ allowed_commands: ['sh', 'sleep'], sandbox: 'off' })
    const late = { code: 'E_TIMEOUT', message: 'run timed out after 1s' }
    const within3s = async (command: string, args: readonly string[], data: object): Promise<void> => {
      const took = await soonest(3_000, async () => {
        const asked = performance.now()
        expect(await fails('run', { command, args, timeout_seconds: 1 })).toMatchObject({ ...late, data })
        return performance.now() - asked
      })
      expect(took).toBeLessThan(3_000)
    }
    await within3s('sleep', ['1000'], { timed_out: true, stdout: '' })
    // A process that ignores the first signal gets no more time.
    const stubborn =
      'trap "" TERM; echo first; sleep 1000 & echo $! > a; (trap "" TERM; sleep 1000) & echo $! > b; wait'
    await within3s('sh', ['-c', `echo $$ > group; ${stubborn}`], { timed_out: true, stdout: 'first\n' })
    for (const file of ['group', 'a', 'b']) expect(await gone(await readPid(join(dir, file)))).toBe(true)
    expect(membersOf(await readPid(join(dir, 'group')))).toEqual([])
  })

  test('SH-11: head and tail of endless output are kept, and its process is killed', async () => {
    const { fails, dir } = await open({
      allowed_commands: ['sh'],
      sandbox: 'off',
      max_output_bytes: 2_048,
      max_written_bytes: 1_000_000,
    })
    const before = process.memoryUsage().arrayBuffers
    const error = await fails('run', { command: 'sh', args: ['-c', 'echo $$ > pid; exec yes'] })
    expect(error).toMatchObject({
      code: 'E_TOO_LARGE',
      message: 'run was stopped: it wrote more than 1000000 bytes',
      data: { truncated: true },
    })
    const { stdout } = error.data as { stdout: string }
    expect(stdout).toMatch(/^(?:y\n){512}\n… \d+ bytes left out …\n(?:y?\n)?(?:y\n)+$/)
    expect(stdout.replace(/\n….*…\n/, '').length).toBe(2_048)
    expect(await gone(await readPid(join(dir, 'pid')))).toBe(true)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32_000_000)
  })

  test('SH-13: commands get only the environment variables that they need [DIG-94]', async () => {
    const { call, app } = await open(
      { allowed_commands: ['env'], sandbox: 'off', env_passthrough: ['WANTED', 'GITHUB_TOKEN'], env: { MODE: 'test' } },
      { AWS_SECRET_ACCESS_KEY: 'canary-secret-1', WANTED: 'yes', GITHUB_TOKEN: 'canary-secret-2' },
    )
    const { stdout } = await call('run', { command: 'env' })
    expect(stdout).not.toContain('canary-secret')
    expect(stdout).toContain('WANTED=yes\n')
    expect(stdout).toContain('MODE=test\n')
    expect(stdout).toContain('GIT_TERMINAL_PROMPT=0\n')
    // The last three come from the shell that sets the limits.
    const allowed =
      /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|TERM|GIT_\w+|PAGER|GIT_PAGER|GIT_TERMINAL_PROMPT|WANTED|GITHUB_TOKEN|MODE|PEGBOARD_CHILD|PWD|SHLVL|_)=/
    expect(stdout.split('\n').filter((line: string) => line !== '' && !allowed.test(line))).toEqual([])
    const { variables } = await call('env')
    expect(variables).toMatchObject({ WANTED: 'yes', MODE: 'test', GITHUB_TOKEN: '[redacted]' })
    expect(JSON.stringify(variables)).not.toContain('canary')
    expect(Object.keys((await call('env', { prefix: 'WAN' })).variables)).toEqual(['WANTED'])
    expect(app.failed()).toEqual([])
  })

  test('SH-15: commands run inside the workspace, whatever links lead out of it', async () => {
    const { call, fails, dir } = await open({ allowed_commands: ['pwd'], denied_paths: ['private'] })
    mkdirSync(join(dir, 'sub'))
    mkdirSync(join(dir, 'private'))
    symlinkSync('/usr', join(dir, 'out'))
    expect((await call('run', { command: 'pwd', cwd: 'sub' })).stdout).toMatch(/\/sub\n$/)
    for (const cwd of ['..', '/', '/usr', 'out', 'out/bin', 'sub/../..'])
      expect(await fails('run', { command: 'pwd', cwd }), cwd).toMatchObject({
        code: 'E_PATH_OUTSIDE_ROOT',
        message: expect.stringContaining('modules.shell.config.roots'),
      })
    expect(await fails('run', { command: 'pwd', cwd: 'private' })).toMatchObject({ code: 'E_PATH_DENIED' })
  })

  test('SH-16: a command that waits for input gets its end, or hits the time limit', async () => {
    const { call, fails } = await open({ allowed_commands: ['cat', 'sh', 'git', 'python3', 'sudo'], sandbox: 'off' })
    expect(await call('run', { command: 'cat' })).toMatchObject({ stdout: '', exit_code: 0 })
    expect(await call('run', { command: 'cat', stdin: 'over here' })).toMatchObject({ stdout: 'over here' })
    expect(await fails('run', { command: 'sh', args: ['-c', 'read x < /dev/tty'] })).toMatchObject({
      code: 'E_TOOL_FAILED',
    })
    const url = await serve((_, answer) =>
      answer.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end('who are you?'),
    )
    expect(await fails('run', { command: 'git', args: ['ls-remote', url], timeout_seconds: 30 })).toMatchObject({
      code: 'E_TOOL_FAILED',
      data: { timed_out: false, stderr: expect.stringContaining('terminal prompts disabled') },
    })
    const there = (name: string): boolean => spawnSync('which', [name]).status === 0
    if (there('python3')) expect(await call('run', { command: 'python3' })).toMatchObject({ stdout: '', exit_code: 0 })
    if (there('sudo'))
      expect(['E_TOOL_FAILED', undefined]).toContain(
        (await call('run', { command: 'sudo', args: ['-k', 'true'] }).catch((error) => error)).code,
      )
  })

  test('SH-17: exit code and signal are reported beside the output, without a stack [DIG-94]', async () => {
    const { fails } = await open({ allowed_commands: ['sh'], sandbox: 'off' })
    const failed = await fails('run', { command: 'sh', args: ['-c', 'echo out; echo err >&2; exit 3'] })
    expect(failed).toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'run exited with code 3',
      data: { exit_code: 3, stdout: 'out\n', stderr: 'err\n', timed_out: false },
    })
    expect(await fails('run', { command: 'sh', args: ['-c', 'kill -9 $$'] })).toMatchObject({
      message: 'run was stopped by SIGKILL',
      data: { exit_code: null, signal: 'SIGKILL' },
    })
    expect(`${failed.message} ${failed.hint} ${JSON.stringify(failed.data)}`).not.toMatch(/\n\s+at |\.ts/)
  })
})

test.runIf(POSIX)('an allowed program starts no other program, whatever its arguments', async () => {
  const { call, fails, dir } = await openBelow({
    allowed_commands: ['git', 'tar', 'find', 'sort', 'curl', 'rg', 'split', 'wget', 'rsync', { command: 'git rebase' }],
  })
  execFileSync('git', ['init', '-q', dir])
  for (const name of ['a.txt', 'b.txt']) writeFileSync(join(dir, name), 'b\na\n')
  const run = `touch ${join(dir, 'ran')}`
  for (const [command, ...args] of [
    ['git', '-c', `alias.x=!${run}`, 'x'],
    ['git', 'config', 'alias.x', `!${run}`],
    ['git', '--no-pager', 'config', 'core.fsmonitor', run],
    ['git', 'ls-remote', `--upload-pa=${run}`, dir],
    ['git', 'ls-remote', `--exec=${run}`, dir],
    ['git', 'fetch', '--upload-p', run, dir],
    ['git', 'clone', `--conf=core.sshCommand=${run}`, 'ssh://x/y', 'z'],
    ['git', 'diff', '--no-index', `--outpu=${join(dir, 'ran')}`, 'a.txt', 'b.txt'],
    ['git', 'grep', `-nO${run}`, 'b'],
    ['git', 'grep', `--open-files-in-p=${run}`, 'b'],
    ['git', 'bisect', 'run', 'sh', '-c', run],
    ['git', 'submodule', 'foreach', run],
    ['git', 'rebase', `--ex=${run}`, 'HEAD'],
    ['git', 'difftool', '-x', run],
    ['git', 'archive', `--exec=${run}`, '--remote=.', 'HEAD'],
    ['tar', '-cf', 'x.tar', '--checkpoint=1', `--checkpoint-act=exec=${run}`, 'a.txt'],
    ['tar', 'cIf', run, 'x.tar', 'a.txt'],
    ['tar', '-cvIf', run, 'x.tar', 'a.txt'],
    ['tar', '-xf', 'x.tar', `--to-com=${run}`],
    ['tar', '-xf', 'x:y.tar', `--rsh-com=${run}`],
    ['find', '.', '-execdir', 'touch', join(dir, 'ran'), ';'],
    ['find', '.', '-fprintf', join(dir, 'ran'), 'x'],
    ['sort', '-uo', join(dir, 'ran'), 'a.txt'],
    ['sort', `--compress-prog=${run}`, 'a.txt'],
    ['curl', '-sSo', join(dir, 'ran'), 'file:///etc/passwd'],
    ['curl', '--outp', join(dir, 'ran'), 'file:///etc/passwd'],
    ['rg', `--pre=${run}`, 'x'],
    ['split', `--filt=${run}`, 'a.txt'],
    ['wget', '-qO', join(dir, 'ran'), 'http://127.0.0.1:1/'],
    ['rsync', '-ave', run, 'a.txt', 'x:y'],
  ] as [string, ...string[]][])
    expect(await fails('run', { command, args }), [command, ...args].join(' ')).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
    })
  expect(readdirSync(dir)).not.toContain('ran')
  expect(await call('run', { command: 'tar', args: ['-cvzf', 'x.tar', 'a.txt'] })).toMatchObject({ exit_code: 0 })
  expect(await call('run', { command: 'tar', args: ['tf', 'x.tar'] })).toMatchObject({ stdout: 'a.txt\n' })
  expect(await call('run', { command: 'sort', args: ['-ru', 'a.txt'] })).toMatchObject({ stdout: 'b\na\n' })
  expect(await call('run', { command: 'git', args: ['status', '--short', '--branch'] })).toMatchObject({ exit_code: 0 })
})

test.runIf(sandboxed)(
  'renaming parent folders does not remove the protection of hidden or read-only files in the sandbox',
  async () => {
    const { call, dir } = await openBelow({ denied_paths: ['a/b/private'] })
    for (const folder of ['.git/hooks', 'a/b/private']) mkdirSync(join(dir, folder), { recursive: true })
    writeFileSync(join(dir, 'a/b/private/key'), 'canary')
    for (const cmd of [
      'mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit',
      'mv a c; mv a/b a/c; cd a/b; mv pr?vate ../x; cd ../..; cat */*/pr?vate/key a/x/key',
      'rm -rf .git a; ln -s /tmp .git; cp -r a d; cat d/b/pr?vate/key',
      'cat */*/pr?vate/key a/x/key',
    ])
      expect(await call('bash', { cmd: `${cmd}; true` }), cmd).toMatchObject({ stdout: '' })
    expect(readdirSync(join(dir, '.git/hooks'))).toEqual([])
    expect(readFileSync(join(dir, 'a/b/private/key'), 'utf8')).toBe('canary')
    expect(readdirSync(dir).toSorted()).toEqual(['.git', 'a', 'd'])
  },
)

test.runIf(sandboxed)('the sandbox hides keys in the workspace, in any case', async () => {
  const { call, dir } = await open()
  const files = ['.env', '.ENV', '.Env.Local', '.NPMRC', '.Git-Credentials', '.netrc']
  for (const file of files) writeFileSync(join(dir, file), 'canary\n')
  mkdirSync(join(dir, '.SSH'))
  writeFileSync(join(dir, '.SSH/id_ed25519'), 'canary\n')
  writeFileSync(join(dir, '.env.example'), 'for all\n')
  const { stdout } = await call('bash', {
    cmd: `cat ${files.join(' ')} .SSH/* .ENV; grep -r canary . ; cat .env.example; true`,
  })
  expect(stdout).toBe('for all\n')
  await call('bash', { cmd: 'echo planted > .ENV; rm -rf .SSH; true' })
  expect(readFileSync(join(dir, '.ENV'), 'utf8')).toBe('canary\n')
  expect(readFileSync(join(dir, '.SSH/id_ed25519'), 'utf8')).toBe('canary\n')
})

test.runIf(POSIX)(
  'a folder alias never leads to the state folder, a link, or more than the folder itself',
  async () => {
    const top = temporaryFolder()
    for (const folder of ['cache', 'cache/private', 'elsewhere']) mkdirSync(join(top, folder))
    writeFileSync(join(top, 'elsewhere/secret'), 'canary')
    symlinkSync(join(top, 'elsewhere'), join(top, 'link'))
    symlinkSync(join(top, 'elsewhere'), join(top, 'cache/out'))
    const told = async (config: Record<string, unknown>, cwd = 'file_cache_dir') => {
      const { call } = await open({ allowed_commands: ['pwd'], sandbox: 'off', denied_paths: ['private'], ...config })
      const inner = (tool: string, input: object): Promise<string> =>
        call(tool, input).then(
          ({ stdout }) => stdout,
          ({ code }) => code,
        )
      return [await inner('run', { command: 'pwd', cwd }), await inner('bash', { cmd: `cd ${cwd}/ && pwd` })]
    }
    const own = join(top, 'cache')
    expect(await told({ file_cache_dir: own })).toEqual([`${own}\n`, `${own}\n`])
    const dir = temporaryFolder()
    for (const [file_cache_dir, code] of [
      ['', 'E_NOT_FOUND'],
      [join(dir, 'state'), 'E_NOT_FOUND'],
      [dir, 'E_NOT_FOUND'],
      ['/', 'E_NOT_FOUND'],
      [join(top, 'link'), 'E_PATH_OUTSIDE_ROOT'],
    ] as const) {
      const config = { enabled: true, allowed_commands: ['pwd'], sandbox: 'off', file_cache_dir }
      const all = await startAppWithClient({ shell: { config } }, { dir })
      const call = (tool: string, input: object) => all.call(`shell.${tool}`, input)
      for (const [tool, input] of [
        ['run', { command: 'pwd', cwd: 'file_cache_dir' }],
        ['bash', { cmd: 'ls file_cache_dir/' }],
      ] as const)
        expect(await call(tool, input).catch((error) => error.code), `${tool} ${file_cache_dir}`).toBe(code)
    }
    for (const cwd of ['file_cache_dir/..', 'file_cache_dir/out', 'file_cache_dir/../elsewhere'])
      expect((await told({ file_cache_dir: own }, cwd))[0], cwd).toBe('E_PATH_OUTSIDE_ROOT')
    expect((await told({ file_cache_dir: own }, 'file_cache_dir/private'))[0]).toBe('E_PATH_DENIED')
  },
)

test.runIf(process.platform === 'linux')('programs inherit no open descriptors of the parent of Pegboard', async () => {
  const { config, env, dir } = place({
    exposure: { mode: 'direct' },
    modules: { shell: { config: { enabled: true, allowed_commands: ['sh'], sandbox: 'off' } } },
  })
  writeFileSync(join(dir, 'left-open'), '')
  const left = openSync(join(dir, 'left-open'), 'a')
  // Node closes the descriptors before the first gap itself.
  const stdio = Array.from({ length: 41 }, (_, at) => (at === 40 ? left : at < 2 ? 'pipe' : 'ignore'))
  const server = spawn(process.execPath, [cli, 'serve', '--stdio', '--config', config], {
    env,
    stdio: stdio as StdioOptions,
  })
  onTestFinished(async () => {
    closeSync(left)
    server.kill('SIGKILL')
    await once(server, 'exit')
  })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamTransport(server.stdout as Readable, server.stdin as Writable) as never)
  const args = ['-c', 'echo planted > /proc/self/fd/40; readlink /proc/self/fd/40']
  const answer = await client.callTool({ name: 'shell__run', arguments: { command: 'sh', args } })
  expect(answer.structuredContent).toMatchObject({ stdout: expect.stringMatching(/^\/dev\/null\n/) })
  expect(readFileSync(join(dir, 'left-open'), 'utf8')).toBe('')
})

/** Commands of terminals, a hidden line, bytes that are not UTF-8, zero bytes and selectors. */
const STEERING =
  '\\033]52;c;ZXZpbA==\\007\\033]8;;https://evil.test\\033\\\\link\\033]8;;\\033\\\\\\033[2J\\302\\2332Jharmless\\rgone\\377\\376\\000end\\n'

test.runIf(POSIX)(
  'SH-18: output of commands is valid JSON without terminal escape sequences, wherever it is shown',
  async () => {
    const { client, call, fails } = await open({ allowed_commands: ['sh'], sandbox: 'off' })
    const print = `printf '${STEERING}'`
    const steers = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|\\u00[019][0-9a-f]/
    const told: Record<string, unknown> = {}
    told['run'] = await client.callTool({ name: 'shell__run', arguments: { command: 'sh', args: ['-c', print] } })
    told['bash'] = await client.callTool({ name: 'shell__bash', arguments: { cmd: `${print}; ${print} >&2` } })
    told['meta'] = await client.callTool({
      name: 'execute_tool',
      arguments: { name: 'shell.bash', params: { cmd: print } },
    })
    told['failed'] = await fails('bash', { cmd: `${print}; ${print} >&2; exit 3` })
    const { task_id } = await call('background_run', { command: print, shell: true })
    await call('task_wait', { task_id })
    told['task'] = await client.callTool({ name: 'shell__task_output', arguments: { task_id } })
    for (const [how, answer] of Object.entries(told)) {
      const text = JSON.stringify(answer)
      expect([how, text.match(steers)?.[0]], text).toEqual([how, undefined])
      expect(text, how).toMatch(/link.*harmless.*gone.*end/)
    }
  },
  60_000,
)

test.runIf(POSIX)(
  'SH-04: no option makes an allowed program start another one or write unchecked',
  async () => {
    const programs = ['git', 'find', 'fd', 'tar', 'rg', 'sort', 'curl', 'rsync', 'zip', 'split', 'wget', 'man']
    const { call, fails, dir } = await open({ allowed_commands: programs })
    const attacks = `
    git -c core.pager=./evil log
    git -ccore.pager=./evil log
    git --config-env=core.pager=EVIL log
    git --exec-path=. log
    git -C / log
    git --git-dir=/ log
    git clone -u ./evil . copy
    git clone -qu ./evil . copy
    git clone --upload-pa=./evil . copy
    git ls-remote --upload-pack=./evil .
    git clone --template=. . copy
    git push --receive-pack ./evil .
    git grep -O./evil x
    git grep -nO./evil x
    git diff --ext-diff
    git diff --output=pwned
    git archive -o pwned HEAD
    git format-patch -o pwned HEAD
    git config core.pager ./evil
    git difftool -x ./evil
    git rebase -x ./evil HEAD
    git bisect run ./evil
    git submodule foreach ./evil
    find . -exec ./evil ;
    find . -execdir ./evil ;
    find . -okdir ./evil ;
    find . -fprintf pwned x
    find . -delete
    fd -x ./evil
    fd -Hx ./evil
    fd -IHX ./evil
    fd --exec-batch ./evil
    tar cf a --checkpoint=1 --checkpoint-action=exec=./evil .
    tar xf a --to-command=./evil
    tar -xfa -I./evil
    tar xI ./evil -f a
    tar -cvF ./evil -f a .
    tar xf a --use-comp=./evil
    rg --pre ./evil x
    rg --pre=./evil x
    rg --hostname-bin=./evil x
    sort --compress-prog=./evil a
    sort -o pwned a
    sort -uo pwned a
    curl -o pwned http://127.0.0.1:9/
    curl -so pwned http://127.0.0.1:9/
    curl -K a http://127.0.0.1:9/
    curl -sD pwned http://127.0.0.1:9/
    curl --dump-header pwned http://127.0.0.1:9/
    curl -c pwned http://127.0.0.1:9/
    curl --cookie-jar pwned http://127.0.0.1:9/
    curl --trace pwned http://127.0.0.1:9/
    curl --trace-ascii pwned http://127.0.0.1:9/
    curl --stderr pwned http://127.0.0.1:9/
    curl --libcurl pwned http://127.0.0.1:9/
    curl --etag-save pwned http://127.0.0.1:9/
    curl --hsts pwned http://127.0.0.1:9/
    curl --alt-svc pwned http://127.0.0.1:9/
    curl -T a http://127.0.0.1:9/
    rsync -e ./evil a b
    rsync -ave ./evil a b
    rsync --rsync-path=./evil a b
    zip -TT ./evil a.zip a
    zip -qTT ./evil a.zip a
    zip --unzip-command=./evil a.zip a
    split --filter=./evil a
    split --filt=./evil a
    wget -O pwned http://127.0.0.1:9/
    wget -qO pwned http://127.0.0.1:9/
    wget -o pwned http://127.0.0.1:9/
    wget -a pwned http://127.0.0.1:9/
    wget --output-file=pwned http://127.0.0.1:9/
    wget --append-output=pwned http://127.0.0.1:9/
    wget --save-cookies=pwned http://127.0.0.1:9/
    wget --warc-file=pwned http://127.0.0.1:9/
    wget --use-askpass=./evil http://127.0.0.1:9/
    wget -e use_askpass=./evil http://127.0.0.1:9/
    man -P ./evil ls
    man -aP ./evil ls
    man -C a ls
    man --config-file=a ls
    man --html=./evil ls`
    writeFileSync(join(dir, 'evil'), `#!/bin/sh\ntouch ${dir}/pwned\n`, { mode: 0o755 })
    writeFileSync(join(dir, 'a'), 'a\n')
    const words = (line: string): [string, ...string[]] => line.trim().split(' ') as [string, ...string[]]
    const passed: string[] = []
    for (const line of attacks.trim().split('\n')) {
      const [command, ...args] = words(line)
      const code = await call('run', { command, args }).then(
        () => 'ran',
        (error) => error.code,
      )
      if (code !== 'E_DENIED_BY_POLICY') passed.push(`${line.trim()}: ${code}`)
    }
    expect(passed).toEqual([])
    expect(readdirSync(dir)).not.toContain('pwned')
    // Harmless arguments pass, and words after -- are not options.
    for (const line of [
      'git --version',
      'git log -u -n1',
      'git add -u',
      'git ls-files -o',
      'find . -name a',
      'fd -Hd 1 a',
      'tar -tf a',
      'sort -uk1 a',
      'curl -sSI http://127.0.0.1:9/',
      'wget -qS --spider http://127.0.0.1:9/',
      'man -w ls',
      'sort -- -o',
    ]) {
      const [command, ...args] = words(line)
      const code = await call('run', { command, args }).then(
        () => 'ran',
        (error) => error.code,
      )
      expect(code, line).not.toBe('E_DENIED_BY_POLICY')
    }
    expect(await fails('run', { command: './git', args: ['--version'] })).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
  },
  120_000,
)

test.runIf(POSIX)('SH-19: at the start, the log names allowed programs that can start any other program', async () => {
  const cited = ['bash', 'python', 'env', 'xargs', 'find']
  const others = ['/usr/bin/python3.12', 'pip3', 'nodejs', 'java', 'psql', 'setsid', 'chroot', 'less', 'ssh', 'git']
  const { logged } = await open({ allowed_commands: [...cited, ...others, 'echo', 'git log', 'ls'] })
  expect(logged.join()).toContain('allowing one allows everything')
  expect(logged.join()).toContain(`"commands":${JSON.stringify([...cited, ...others])}`)
})

test.runIf(POSIX)('SH-04: options with which an allowed program starts another one are rejected', async () => {
  const { call, dir } = await open({ allowed_commands: ['git', 'tar', 'find', 'ssh', 'scp'] })
  writeFileSync(join(dir, 'evil.sh'), `#!/bin/sh\ntouch ${dir}/pwned\n`, { mode: 0o755 })
  writeFileSync(join(dir, 'a.txt'), 'a\n')
  for (const line of [
    'git --upload-pack=./evil.sh fetch .',
    'git fetch --upload-pack=./evil.sh .',
    'git -c core.pager=./evil.sh log',
    'git log --output=/x',
    'tar cf x.tar a.txt --checkpoint=1 --checkpoint-action=exec=./evil.sh',
    'tar cfI x.tar ./evil.sh a.txt',
    'tar cbfI 20 x.tar ./evil.sh a.txt',
    'tar cfF x.tar ./evil.sh a.txt',
    'find . -exec ./evil.sh ;',
    'ssh -oProxyCommand=./evil.sh localhost',
    'ssh -o ProxyCommand=./evil.sh localhost',
    'ssh localhost -qoProxyCommand=./evil.sh',
    'ssh -F a.txt localhost',
    'scp -S ./evil.sh a.txt localhost:',
  ]) {
    const [command, ...args] = line.split(' ')
    const code = await call('run', { command, args }).then(
      () => 'ran',
      (error) => error.code,
    )
    expect(code, line).toBe('E_DENIED_BY_POLICY')
  }
  expect(readdirSync(dir)).not.toContain('pwned')
})

test.runIf(sandboxed)(
  'an allowed program that can reach any file by its arguments runs in the sandbox, unless the operator allows it outside',
  async () => {
    const outside = temporaryFolder()
    writeFileSync(join(outside, 'secret'), 'canary\n')
    const { call, dir } = await open({ allowed_commands: ['git', 'tar', 'cp', 'python3', 'sh'] })
    execFileSync('git', ['init', '-q', dir])
    const told = async (command: string, args: readonly string[]): Promise<string> =>
      await call('run', { command, args }).then(
        ({ stdout, stderr }) => stdout + stderr,
        ({ data }) => data.stdout + data.stderr,
      )
    for (const [command, ...args] of [
      ['git', 'diff', '--no-index', '/dev/null', join(outside, 'secret')],
      ['git', 'init', '-q', join(outside, 'made')],
      ['git', 'clone', '-q', '.', join(outside, 'made')],
      ['tar', 'cf', join(outside, 'made'), '/etc/hostname'],
      ['cp', join(outside, 'secret'), 'copy'],
      ['sh', '-c', `cat ${outside}/secret; echo x > ${outside}/made`],
    ] as [string, ...string[]][])
      expect(await told(command, args), `${command} ${args.join(' ')}`).not.toContain('canary')
    expect(readdirSync(outside)).toEqual(['secret'])
    expect(await told('git', ['status', '--short', '--branch'])).toContain('No commits yet')
    const trusted = await open({ allowed_commands: [{ command: 'sh', sandbox: false }] })
    expect(await trusted.call('run', { command: 'sh', args: ['-c', `cat ${outside}/secret`] })).toMatchObject({
      stdout: 'canary\n',
    })
  },
)

test.runIf(POSIX)('SH-04: words after -- are options for find, and one letter of a long option is enough', async () => {
  const bin = temporaryFolder()
  const mark = join(bin, 'pwned')
  // Neither sets the clock of this machine.
  writeFileSync(join(bin, 'date'), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 })
  const programs = ['find', 'sort', 'date', 'curl', 'git']
  const { fails, dir } = await open(
    { allowed_commands: programs.map((command) => ({ command, sandbox: false })) },
    { PATH: `${bin}:${process.env['PATH']}` },
  )
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'in.txt'), 'b\na\n')
  for (const [command, ...args] of [
    ['find', '--', '.', '-maxdepth', '0', '-exec', 'touch', mark, ';'],
    ['find', '-L', '--', '.', '-fprint', mark],
    ['find', '--', 'in.txt', '-delete'],
    ['sort', '--o=modules/evil.js', 'in.txt'],
    ['sort', '--o', 'modules/evil.js', 'in.txt'],
    ['sort', '--c=touch', 'in.txt'],
    ['date', '--s=2001-01-01'],
    ['date', '--s', '2001-01-01'],
    ['curl', '-s', '--remote-name', `file://${dir}/in.txt`],
    ['curl', '-s', '--remote-name-all', `file://${dir}/in.txt`],
    ['git', '--namespace', 'x', 'config', 'alias.x', `!touch ${mark}`],
  ] as [string, ...string[]][])
    expect(
      await fails('run', { command, args, cwd: command === 'curl' ? 'modules' : '.' }),
      [command, ...args].join(' '),
    ).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
  expect(readdirSync(bin)).toEqual(['date'])
  expect(readdirSync(join(dir, 'modules'))).toEqual([])
  expect(readdirSync(dir)).toContain('in.txt')
})

test.runIf(sandboxed)(
  'SH-04: an allowed program without suspicious options writes only where the sandbox allows it',
  async () => {
    const outside = temporaryFolder()
    const made = join(outside, 'made')
    const allowed_commands = ['uniq', 'shuf', 'iconv', 'xxd', 'curl', 'find', 'tee', 'gzip']
    const { call, dir } = await open({ allowed_commands })
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'in.txt'), 'b\na\n')
    for (const place of [made, 'modules/evil.js'])
      for (const [command, ...args] of [
        ['uniq', 'in.txt', place],
        ['shuf', '-o', place, 'in.txt'],
        ['iconv', '-o', place, 'in.txt'],
        ['xxd', 'in.txt', place],
        ['curl', '-s', '-w', `%output{${place}}x`, `file://${dir}/in.txt`],
        ['tee', place],
      ] as [string, ...string[]][])
        await call('run', { command, args }).catch(() => undefined)
    expect(readdirSync(outside)).toEqual([])
    expect(readdirSync(join(dir, 'modules'))).toEqual([])
    // They work in the workspace.
    mkdirSync(join(dir, 'work'))
    await call('run', { command: 'uniq', args: ['in.txt', 'work/out.txt'] })
    expect(readFileSync(join(dir, 'work/out.txt'), 'utf8')).toBe('b\na\n')
  },
)

test.runIf(sandboxed)(
  'SH-07: an allowed read-only program sees only the sandbox: no variables, no state, no configuration',
  async () => {
    const outside = temporaryFolder()
    writeFileSync(join(outside, 'secret'), 'canary\n')
    const { call, dir } = await open({ allowed_commands: ['cat', 'ls', 'head', 'od', 'stat'] })
    writeFileSync(join(dir, 'in.txt'), 'mine\n')
    writeFileSync(join(dir, 'mcp.config.json'), 'canary')
    writeFileSync(join(dir, 'state/token'), 'canary')
    const told = async (command: string, args: readonly string[]): Promise<string> =>
      await call('run', { command, args }).then(
        ({ stdout, stderr }) => stdout + stderr,
        ({ data, code }) => (data ? data.stdout + data.stderr : code),
      )
    for (const [command, ...args] of [
      ['cat', `/proc/${process.pid}/environ`],
      ['od', '-c', `/proc/${process.pid}/environ`],
      ['cat', `/proc/${process.pid}/cwd/package.json`],
      ['cat', join(outside, 'secret')],
      ['cat', 'mcp.config.json', 'state/token'],
      ['head', '-c9', join(dir, 'state/token')],
      ['ls', '-l', outside],
    ] as [string, ...string[]][])
      expect(await told(command, args), args.join(' ')).not.toMatch(/canary|PATH|pegboard"|secret\n/)
    expect(await told('cat', ['in.txt'])).toBe('mine\n')
    const trusted = await open({ allowed_commands: [{ command: 'cat', sandbox: false }] })
    expect(await trusted.call('run', { command: 'cat', args: [join(outside, 'secret')] })).toMatchObject({
      stdout: 'canary\n',
    })
  },
)

test.runIf(POSIX)('SH-04: without a sandbox only programs run that can neither write nor start others', async () => {
  const bin = temporaryFolder()
  const where = (name: string): string => execFileSync('which', [name], { encoding: 'utf8' }).trim()
  for (const name of ['cat', 'uniq', 'sort', 'env', 'wc', 'echo']) symlinkSync(where(name), join(bin, name))
  writeFileSync(join(bin, 'own'), '#!/bin/sh\necho ran\n', { mode: 0o755 })
  const { call, fails, dir } = await open(
    { allowed_commands: ['cat', 'wc', 'echo', 'uniq', 'sort', 'own', 'find', 'date', 'env -i', join(bin, 'cat')] },
    { PATH: bin },
  )
  writeFileSync(join(dir, 'in.txt'), 'a\n')
  expect(await call('run', { command: 'cat', args: ['in.txt'] })).toMatchObject({ stdout: 'a\n' })
  for (const [command, ...args] of [
    ['uniq', 'in.txt', 'out.txt'],
    ['sort', 'in.txt'],
    ['own'],
    ['find', '.'],
    ['date'],
    ['env', '-i'],
    [join(bin, 'cat'), 'in.txt'],
  ] as [string, ...string[]][])
    expect(await fails('run', { command, args }), command).toMatchObject({
      code: 'E_SANDBOX_UNAVAILABLE',
      hint: expect.stringContaining('"sandbox": false'),
    })
  expect(readdirSync(dir)).not.toContain('out.txt')
  // Only the check of their arguments restricts these programs.
  writeFileSync(join(dir, 'mcp.config.json'), 'canary')
  symlinkSync('/etc', join(dir, 'link'))
  for (const [command, ...args] of [
    ['cat', '/etc/passwd'],
    ['cat', '-n', '--', '../../etc/passwd'],
    ['cat', 'link/passwd'],
    ['cat', `/proc/${process.pid}/environ`],
    ['cat', '/proc/self/root/etc/passwd'],
    ['cat', 'mcp.config.json'],
    ['cat', 'state/token'],
    ['wc', '--files0-from=in.txt'],
    ['wc', '--f', 'in.txt'],
  ] as [string, ...string[]][])
    expect(await fails('run', { command, args }), args.join(' ')).toMatchObject({
      code: expect.stringMatching(/^E_(PATH_OUTSIDE_ROOT|PATH_DENIED|DENIED_BY_POLICY)$/),
    })
  expect(await call('run', { command: 'echo', args: ['/etc/passwd'] })).toMatchObject({ stdout: '/etc/passwd\n' })
  const trusted = await open({ allowed_commands: [{ command: 'own', sandbox: false }] }, { PATH: bin })
  expect(await trusted.call('run', { command: 'own' })).toMatchObject({ stdout: 'ran\n' })
})

test.runIf(POSIX)(
  'SH-19: at the start, the log says that git outside the sandbox runs programs that a repository names',
  async () => {
    const said = 'run programs named in .git/config and .gitattributes of a repository'
    const trusted = await open({ allowed_commands: [{ command: 'git push', sandbox: false }, 'git log', 'ls'] })
    expect(trusted.logged.join()).toContain(said)
    expect(trusted.logged.join()).toContain('"commands":["git push"]')
    expect((await open({ allowed_commands: ['git'], sandbox: 'off' })).logged.join()).toContain(said)
    expect((await open({ allowed_commands: ['git', 'git log'] })).logged.join()).not.toContain(said)
    const all = await open({ allowed_commands: [{ command: 'git', sandbox: false }], sandbox: 'all' })
    expect(all.logged.join()).not.toContain(said)
  },
)

const COMMANDS_THAT_LEAVE: Readonly<Record<string, string>> = {
  setsid: 'setsid sh -c "$LEFT" >/dev/null 2>&1 &',
  'double fork': '( ( sh -c "$LEFT" >/dev/null 2>&1 & ) & )',
  nohup: 'nohup sh -c "$LEFT" >/dev/null 2>&1 &',
  trap: 'trap "" TERM; ( trap "" TERM; setsid sh -c "$LEFT" >/dev/null 2>&1 & )',
}

for (const sandbox of ['off', 'scripts'] as const)
  test.runIf(sandbox === 'off' ? process.platform === 'linux' : sandboxed)(
    `SH-10: nothing of a command that detaches survives the timeout (sandbox: ${sandbox})`,
    async () => {
      const { fails, dir } = await openBelow({ allowed_commands: ['sh'], sandbox })
      for (const [how, line] of Object.entries(COMMANDS_THAT_LEAVE)) {
        const seconds = `8${Math.floor(Math.random() * 1e6)}`
        const left = `LEFT="trap '' TERM HUP; echo on >> ${dir}/${how.replace(' ', '')}; sleep ${seconds}; sleep ${seconds}"`
        const error = await fails('run', {
          command: 'sh',
          args: ['-c', `${left}; export LEFT; ${line}\nsleep 1000`],
          timeout_seconds: 1,
        })
        expect(error, how).toMatchObject({ code: 'E_TIMEOUT' })
        expect(readFileSync(join(dir, how.replace(' ', '')), 'utf8'), how).toBe('on\n')
        await expect
          .poll(() => execFileSync('ps', ['-A', '-o', 'args='], { encoding: 'utf8' }).includes(`sleep ${seconds}`))
          .toBe(false)
      }
    },
    60_000,
  )

test.runIf(sandboxed)(
  'SH-12: limits stop a fork bomb, a large allocation and large files, and the server answers meanwhile',
  async () => {
    const { fails, call, dir } = await openBelow({ max_memory_bytes: 300_000_000, max_file_bytes: 1_000_000 })
    let most = 0
    const count = setInterval(() => {
      const rows = execFileSync('ps', ['-A', '-o', 'args='], { encoding: 'utf8' }).split('\n')
      most = Math.max(most, rows.filter((row) => row.includes('bomb-of-the-test')).length)
    }, 50)
    const bomb = fails('bash', {
      cmd: 'bomb() { bomb | bomb & }; bomb; sleep 20 # bomb-of-the-test',
      timeout_seconds: 20,
    })
    expect(await call('env', { name: 'PATH' })).toMatchObject({ variables: { PATH: expect.any(String) } })
    expect(await bomb).toMatchObject({
      code: 'E_TOO_LARGE',
      message: 'bash was stopped: it had more than 64 processes',
    })
    clearInterval(count)
    expect(most).toBeLessThanOrEqual(66)
    expect(await fails('bash', { cmd: 'x=$(head -c 8G /dev/zero | tr "\\0" x); echo ${#x}' })).toMatchObject({
      code: expect.stringMatching(/^E_TOO_LARGE$|^E_TOOL_FAILED$/),
      message: expect.not.stringContaining('timed out'),
    })
    expect(await fails('bash', { cmd: 'dd if=/dev/zero of=big bs=64k count=1000' })).toMatchObject({
      code: 'E_TOO_LARGE',
      message: 'bash was stopped: it created a file larger than 1000000 bytes',
    })
    expect(statSync(join(dir, 'big')).size).toBeLessThanOrEqual(1_000_448)
  },
  60_000,
)

const mounts = sandboxed && process.getuid?.() === 0 && process.platform === 'linux'
test.runIf(mounts)(
  'SH-12: a command that fills the disk with many files is stopped before the disk is full',
  async () => {
    const { fails, dir } = await open({ roots: ['.'] })
    const disk = join(temporaryFolder(), 'disk')
    mkdirSync(disk)
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=200m', 'tmpfs', disk]).status !== 0) return
    onTestFinished(() => void spawnSync('umount', ['-l', disk]))
    const small = await open({ roots: [disk] })
    expect(
      await small.fails('bash', { cmd: 'for i in $(seq 400); do head -c 1M /dev/zero > $i; sleep 0.01; done' }),
    ).toMatchObject({ code: 'E_TOO_LARGE', message: 'bash was stopped: it left too little free disk space' })
    const { bavail, bsize } = statfsSync(disk)
    expect(bavail * bsize).toBeGreaterThan(10_000_000)
    expect(await fails('bash', { cmd: 'exit 3' })).toMatchObject({ message: 'bash exited with code 3' })
    expect(readdirSync(dir)).not.toContain('1')
  },
)
