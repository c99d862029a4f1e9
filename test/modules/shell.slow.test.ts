import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import shell from '../../modules/shell/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, callsOfModule, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { alive, callsOf, cli, gone, place, readPid, talkTo } from '../process.ts'

keepsTheContract(shell)

const POSIX = process.platform !== 'win32'
const trial = spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true'], {
  encoding: 'utf8',
})
const sandboxed = trial.status === 0
const why = trial.error === undefined ? trial.stderr.trim() : 'bwrap is not installed (apt-get install bubblewrap)'
// On a system without user namespaces no sandbox is required.
const may = spawnSync('unshare', ['--user', '--map-root-user', '--net', '--mount', 'true']).status === 0
if (!sandboxed)
  process.stdout.write(`skipped: tests in a sandbox; ${why}${may ? '' : '; this system allows no namespaces'}\n`)
it.runIf(process.env['CI'] && process.platform === 'linux' && may)(
  'has a working sandbox wherever the system allows namespaces',
  () => {
    expect(sandboxed ? '' : why).toBe('')
  },
)

type Settings = Record<string, unknown>

/** A workspace with the module enabled. */
async function open(config: Settings = {}, env: Record<string, string> = {}) {
  const dir = temporaryFolder()
  const { app, logged } = await startApp({ modules: { shell: { config: { enabled: true, ...config } } } }, dir, {
    env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), ...env },
  })
  return { app, dir, logged, ...callsOfModule(app, 'shell') }
}

describe.runIf(POSIX)('the module shell', () => {
  it('exists for profiles that enable it', async () => {
    const { app } = await startApp({ profiles: { ops: { modules: { shell: { config: { enabled: true } } } } } })
    const seenBy = (profile: string) => app.view({ ...localCaller, profile }).byId.has('shell.bash')
    expect([seenBy('default'), seenBy('ops')]).toEqual([false, true])
  })

  it('has a bash tool that says it is disabled and how to enable it, with either switch [MOR-13]', async () => {
    const sandbox = 'off'
    const answers = async (settings: object) => {
      const call = callsOf(await talkTo(place({ exposure: { mode: 'direct' }, ...settings })))
      return (await call('bash', { cmd: 'echo it runs' })).structuredContent
    }
    const disabled = {
      code: 'E_TOOL_DISABLED',
      message: 'bash tool is disabled (enable via config: tools.bash.enabled=true)',
      hint: 'Use another tool, or tell the user that only the operator can enable this one.',
    }
    expect((await answers({})).error).toMatchObject(disabled)
    const off = { modules: { shell: { config: { enabled: true, sandbox } } }, tools: { bash: { enabled: false } } }
    expect((await answers(off)).error).toMatchObject(disabled)
    for (const on of [
      { modules: { shell: { config: { sandbox } } }, tools: { bash: { enabled: true } } },
      { modules: { shell: { config: { enabled: true, sandbox } } } },
    ])
      expect(await answers(on), JSON.stringify(on)).toMatchObject({ exit_code: 0, stdout: 'it runs\n' })
  })

  it('works in its own roots, not in those of the module filesystem', async () => {
    const { app, dir } = await startApp({
      modules: {
        filesystem: { config: { roots: ['data'] } },
        shell: { config: { enabled: true, sandbox: 'off', allowed_commands: ['pwd'] } },
      },
    })
    const call = async (name: string, input: unknown): Promise<Answer> =>
      ((await app.call({ name, input, caller: localCaller })) as Answer).value
    await call('filesystem.write', { path: 'note.txt', content: 'x' })
    expect((await call('shell.run', { command: 'pwd' })).stdout).toBe(`${realpathSync(dir)}\n`)
    expect(readdirSync(join(dir, 'data'))).toEqual(['note.txt'])
  })

  it('rejects a misspelled limit', async () => {
    const { app } = await open({ max_procs: 3 })
    expect(app.failed()).toMatchObject([{ code: 'E_MODULE_CONFIG' }])
  })
})

describe.runIf(POSIX)('shell.run', () => {
  it('rejects arguments with which a program runs another, and those the operator listed', async () => {
    const { fails, call, logged } = await open({
      allowed_commands: ['git', 'find', 'python3', { command: 'echo', deny_args: ['--secret*'] }],
    })
    for (const [command, ...args] of [
      ['git', '-c', 'core.pager=id', 'log'],
      ['git', 'grep', '--open-files-in-pager=id', 'x'],
      ['git', 'diff', '--output=/etc/x/y'],
      ['find', '.', '-exec', 'id', ';'],
      ['find', '.', '-delete'],
      ['echo', '--secret/x'],
    ] as [string, ...string[]][])
      expect(await fails('run', { command, args }), command).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(await call('run', { command: 'echo', args: ['-n', '--', '-c'] })).toMatchObject({ stdout: '-- -c' })
    expect(logged.join()).toContain('"commands":["git","find","python3"]')
  })

  it('finds programs in PATH, and never in writable folders', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'bin'))
    writeFileSync(join(dir, 'bin/echo'), '#!/bin/sh\n/bin/echo planted\n', { mode: 0o755 })
    const path = `${join(dir, 'bin')}:.:${process.env['PATH']}`
    const { call } = await open({ allowed_commands: ['echo'], roots: [dir] }, { PATH: path })
    expect(await call('run', { command: 'echo', args: ['real'] })).toMatchObject({ stdout: 'real\n' })
    expect(await call('which', { name: 'echo' })).toMatchObject({ path: expect.not.stringContaining(dir) })
  })

  it('ends what a command leaves behind, in its process group or not', async () => {
    const { call, fails, dir } = await open({ allowed_commands: ['sh'], sandbox: 'off' })
    await call('run', { command: 'sh', args: ['-c', 'sleep 1000 >/dev/null 2>&1 & echo $! > a'] })
    expect(await gone(await readPid(join(dir, 'a')))).toBe(true)
    await fails('run', {
      command: 'sh',
      args: ['-c', 'setsid sh -c "echo \\$\\$ > b; sleep 1000"; wait'],
      timeout_seconds: 1,
    })
    expect(await gone(await readPid(join(dir, 'b')))).toBe(true)
  })

  it('lets a call set only harmless variables', async () => {
    const { call, fails } = await open({ allowed_commands: ['env'], sandbox: 'off', env_allowed: ['TZ', 'APP_*'] })
    const env = { TZ: 'Europe/Paris', APP_MODE: 'x y' }
    const { stdout } = await call('run', { command: 'env', env })
    expect(stdout).toContain('TZ=Europe/Paris\n')
    expect(stdout).toContain('APP_MODE=x y\n')
    for (const name of ['LD_PRELOAD', 'PATH', 'NODE_OPTIONS', 'GIT_SSH_COMMAND', 'TZX'])
      expect(await fails('run', { command: 'env', env: { [name]: 'x' } }), name).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: `A call cannot set the variable ${name}.`,
        hint: 'Allowed are: TZ, APP_* (modules.shell.config.env_allowed).',
      })
  })

  it('ends a command with too many processes or too much memory', async () => {
    const { fails } = await open({
      allowed_commands: ['sh', 'node'],
      sandbox: 'off',
      max_processes: 5,
      max_memory_bytes: 200_000_000,
    })
    const many = 'for i in 1 2 3 4 5 6 7 8; do sleep 100 & done; wait'
    expect(await fails('run', { command: 'sh', args: ['-c', many] })).toMatchObject({
      message: 'run was stopped: it had more than 5 processes',
    })
    const big = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(20_000_000, 1)), 20)'
    const error = await fails('run', { command: 'node', args: ['-e', big] })
    expect(error.code === 'E_TOO_LARGE' || error.code === 'E_TOOL_FAILED', error.message).toBe(true)
    expect(error.message).not.toContain('timed out')
  })

  it('ends a command when its client cancels', async () => {
    const { fails, dir } = await open({ allowed_commands: ['sh'], sandbox: 'off' })
    const abort = new AbortController()
    const failed = fails('run', { command: 'sh', args: ['-c', 'echo $$ > pid; sleep 1000'] }, { signal: abort.signal })
    const pid = await readPid(join(dir, 'pid'))
    abort.abort()
    expect(await failed).toMatchObject({ code: 'E_CANCELLED' })
    expect(await gone(pid)).toBe(true)
  })
})

describe.runIf(POSIX)('shell.bash and shell.script', () => {
  it('are rejected if an installed sandbox does not work', async () => {
    const bin = temporaryFolder()
    symlinkSync('/bin/bash', join(bin, 'bash'))
    writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho "No permissions to create new namespace" >&2; exit 1\n', {
      mode: 0o755,
    })
    const { fails, logged } = await open({}, { PATH: bin })
    expect(await fails('bash', { cmd: 'true' })).toMatchObject({
      code: 'E_SANDBOX_UNAVAILABLE',
      message: 'bash runs only in a sandbox, and bubblewrap does not work on this machine.',
    })
    expect(logged.join()).toContain('No permissions to create new namespace')
  })

  it('run without a sandbox if the operator says so, and include output in a failure [MOR-10]', async () => {
    const { call, fails, logged, dir } = await open({ sandbox: 'off' })
    expect(logged.join()).toContain('bash and script run without a sandbox')
    expect(await call('bash', { cmd: 'echo a b | tr " " "\\n" | wc -l' })).toMatchObject({
      stdout: expect.stringMatching(/^\s*2\n$/),
    })
    expect(await fails('bash', { cmd: 'echo out; exit 3' })).toMatchObject({
      message: 'bash exited with code 3',
      data: { exit_code: 3, stdout: 'out\n' },
    })
    const late = await fails('bash', { cmd: 'echo $$ > pid; sleep 600', timeout_seconds: 1 })
    expect(late.message).toBe('bash timed out after 1s')
    expect((late.data as Answer).duration_ms).toBeLessThan(30_000)
    expect(await gone(await readPid(join(dir, 'pid')))).toBe(true)
    const content = 'console.log(process.argv.slice(1).join("+"))'
    expect(await call('script', { content, interpreter: 'node', args: ['a', '-b'] })).toMatchObject({
      stdout: 'a+-b\n',
    })
    expect(await call('script', { content: 'echo "$0 $1"', interpreter: 'sh', args: ['x'] })).toMatchObject({
      stdout: 'sh x\n',
    })
  })

  it('name a missing parameter', async () => {
    const { fails } = await open({ sandbox: 'off' })
    for (const input of [{}, { cmd: '' }])
      expect(await fails('bash', input)).toMatchObject({
        code: 'E_VALIDATION',
        message: expect.stringContaining('missing required param: cmd'),
      })
  })

  it('keep 256 KiB of each stream, and say which was cut', async () => {
    const { call } = await open({ sandbox: 'off' })
    const { stdout, stderr, ...rest } = await call('bash', {
      cmd: 'head -c 300000 /dev/zero | tr "\\0" a; echo short >&2',
    })
    expect(stdout).toMatch(/^a{131072}\n… 37856 bytes left out …\na{131072}$/)
    expect(stderr).toBe('short\n')
    expect(rest).toMatchObject({ exit_code: 0, truncated: true, stdout_truncated: true })
    expect(rest).not.toHaveProperty('stderr_truncated')
  })

  it('accept two folder aliases, in the command line and as working folder [MOR-11]', async () => {
    const { call, fails, dir } = await open({ sandbox: 'off' })
    mkdirSync(join(dir, 'state/files'), { recursive: true })
    writeFileSync(join(dir, 'state/files/a.txt'), 'kept\n')
    expect(await call('bash', { cmd: 'cat file_state_dir/a.txt' })).toMatchObject({ stdout: 'kept\n' })
    const own = 'myfile_state_dir/a ./file_state_dir/a file_state_dirs/a file_state_dir a-file_state_dir/a'
    expect(await call('bash', { cmd: `echo ${own}` })).toMatchObject({ stdout: `${own}\n` })
    expect((await call('bash', { cmd: `x=file_state_dir/a; echo "$x" 'file_state_dir/b'` })).stdout).toBe(
      `${dir}/state/files/a ${dir}/state/files/b\n`,
    )
    expect(await call('bash', { cmd: 'echo new > b.txt; pwd', cwd: 'file_state_dir' })).toMatchObject({
      stdout: expect.stringMatching(/state\/files\n$/),
    })
    expect(readFileSync(join(dir, 'state/files/b.txt'), 'utf8')).toBe('new\n')
    expect(await fails('bash', { cmd: 'true', cwd: 'file_state_dir/../..' })).toMatchObject({
      code: 'E_PATH_OUTSIDE_ROOT',
    })
    const none = await open({ sandbox: 'off', file_cache_dir: '', file_state_dir: '{{state_dir}}' })
    expect(await none.fails('bash', { cmd: 'ls file_cache_dir/x' })).toMatchObject({
      message: 'base dir file_cache_dir is not configured',
    })
    expect(await none.fails('bash', { cmd: 'ls file_state_dir/x' })).toMatchObject({
      message: 'base dir file_state_dir is not configured',
      hint: expect.stringContaining('a folder that does not hold the state of Pegboard'),
    })
  })

  it('quote folder names with spaces and quotes', async () => {
    const odd = join(temporaryFolder(), `a b's $(id) "c"`)
    const { call } = await open({ sandbox: 'off', file_cache_dir: odd })
    const cmd = `echo 1 > file_cache_dir/x; cat file_cache_dir/x "file_cache_dir/x" 'file_cache_dir/x'`
    expect(await call('bash', { cmd })).toMatchObject({ stdout: '1\n1\n1\n', stderr: '' })
  })

  it('deny curl if there are secrets to send, and paths that the operator denies [MOR-12]', async () => {
    const served = async (web: object) => {
      const shell = { config: { enabled: true, sandbox: 'off', allowed_commands: ['echo'] } }
      const tools = { bash: { deny_paths: ['hush.txt'] } }
      return callsOf(await talkTo(place({ modules: { shell, web: { config: web } }, tools })))
    }
    const call = await served({ access: 'write', url_fetch: { secrets: { enabled: true } } })
    const messageOf = async (cmd: string) =>
      (await call('execute_tool', { name: 'bash', params: { cmd } })).structuredContent.error?.message
    for (const cmd of ['curl x', '/usr/bin/curl x', '"curl" x', 'true;curl x'])
      expect(await messageOf(cmd), cmd).toMatch(/^bash command references denied token "curl"/)
    for (const cmd of ['cat hush.txt', 'cat ./hush.txt', 'cat "hush.txt"'])
      expect(await messageOf(cmd), cmd).toBe(
        'bash command references denied path "hush.txt" (configure via tools.bash.deny_paths)',
      )
    const run = await call('shell.run', { command: 'echo', args: ['curl'] })
    expect(run.content[0].text).toMatch(/^E_DENIED_BY_POLICY: run command references denied token "curl"/)
    const said = async (from: typeof call, cmd: string) => (await from('shell.bash', { cmd })).structuredContent?.stdout
    expect([await said(call, 'echo curly'), await said(call, 'echo whush.txt')]).toEqual(['curly\n', 'whush.txt\n'])
    expect(await said(await served({ access: 'write' }), 'echo curl')).toBe('curl\n')
  })

  it('redact credentials in output, unless the operator disables it [MOR-21]', async () => {
    const lines = [
      '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N',
      'Bearer abcdefgh12345678',
      'DB_PASSWORD=hunter2',
      'https://host.example/a?page=2&access_token=abc123',
    ]
    const shown =
      '[redacted]\n[redacted]\nBearer [redacted]\nDB_PASSWORD=[redacted]\nhttps://host.example/a?page=2&access_token=[redacted]\n'
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'all.txt'), `${lines.join('\n')}\n`)
    const { call, fails } = await open({ sandbox: 'off', roots: [dir] })
    expect((await call('bash', { cmd: 'cat all.txt' })).stdout).toBe(shown)
    expect((await fails('bash', { cmd: 'cat all.txt >&2; exit 3' })).data).toMatchObject({ stderr: shown })
    const { task_id } = await call('background_run', { command: 'cat all.txt', shell: true })
    expect((await call('task_wait', { task_id })).status).toBe('ended')
    expect((await call('task_output', { task_id })).stdout).toBe(shown)
    const { app } = await startApp(
      {
        modules: { shell: { tripwire: 'off', config: { enabled: true, sandbox: 'off', roots: [dir], redact: false } } },
      },
      dir,
      { env: { PATH: process.env['PATH'], PEGBOARD_STATE_DIR: join(dir, 'state') } },
    )
    const answer = (await app.call({
      name: 'shell.bash',
      input: { cmd: 'cat all.txt' },
      caller: localCaller,
    })) as Answer
    expect(answer.value.stdout).toBe(`${lines.join('\n')}\n`)
  })

  it('report the running time and last line as progress', async () => {
    const { app } = await open({ sandbox: 'off' })
    const told: Array<readonly [number, string | undefined]> = []
    await app.call({
      name: 'shell.bash',
      input: { cmd: 'echo one; echo two; sleep 2.5' },
      caller: localCaller,
      onProgress: (done, _total, message) => told.push([done, message]),
    })
    expect(told).toEqual([[2, 'two']])
  })

  it('reject words and paths that the operator denies, at word boundaries', async () => {
    const { call, fails } = await open({ sandbox: 'off', deny_tokens: ['curl'], denied_paths: ['secret.txt'] })
    for (const cmd of ['curl x', '/usr/bin/curl x', '"curl" x', 'true;curl'])
      expect(await fails('bash', { cmd }), cmd).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: 'bash command references denied token "curl" (configure via modules.shell.config.deny_tokens)',
      })
    expect(await fails('bash', { cmd: 'cat ./secret.txt' })).toMatchObject({
      message: 'bash command references denied path "secret.txt" (configure via tools.bash.deny_paths)',
    })
    expect(await call('bash', { cmd: 'echo curly' })).toMatchObject({ stdout: 'curly\n' })
  })
})

describe.runIf(POSIX)('to a client', () => {
  it.each(['legacy', 'modern'] as const)('of the %s era a failure shows its output', async (era) => {
    const { app } = await open({ sandbox: 'off' })
    const client = await connectTo(app, era)
    const input = { cmd: 'echo out; echo err >&2; exit 3' }
    for (const call of [
      { name: 'shell__bash', arguments: input },
      { name: 'execute_tool', arguments: { name: 'shell.bash', params: input } },
    ]) {
      const answer = (await client.callTool(call)) as Answer
      expect(answer.isError).toBe(true)
      expect(answer.content[0].text).toBe('E_TOOL_FAILED: bash exited with code 3. Check its output.')
      const data = { exit_code: 3, stdout: 'out\n', stderr: 'err\n' }
      expect(JSON.parse(answer.content[1].text)).toMatchObject(data)
      if (call.name === 'execute_tool')
        expect(answer.structuredContent).toMatchObject({ success: false, error: { code: 'E_TOOL_FAILED' }, data })
    }
  })
})

describe.runIf(sandboxed)('in bubblewrap', () => {
  it('processes of a background command are shown without the sandbox arguments', async () => {
    const { call } = await open()
    await call('background_run', { command: 'sleep 1000', shell: true })
    await expect
      .poll(async () => (await call('ps')).processes.map(({ command }: Answer) => command))
      .toEqual(['bwrap (the sandbox)', 'bwrap (the sandbox)', 'sleep 1000'])
  })

  it('keys at the top of an aliased folder appear empty', async () => {
    const { call, dir } = await open()
    mkdirSync(join(dir, 'state/files/.aws'), { recursive: true })
    writeFileSync(join(dir, 'state/files/.env'), 'KEY=canary')
    writeFileSync(join(dir, 'state/files/.aws/credentials'), 'canary')
    writeFileSync(join(dir, 'state/files/a.txt'), 'kept\n')
    const cmd = 'cat file_state_dir/a.txt file_state_dir/.env; ls file_state_dir/.aws'
    expect(await call('bash', { cmd })).toMatchObject({ exit_code: 0, stdout: 'kept\n' })
  })

  it('newly created files that other programs obey are reported to caller and operator', async () => {
    const dir = temporaryFolder()
    const { app, logged } = await open({ roots: [dir] })
    const warnings = async (cmd: string): Promise<unknown> =>
      ((await app.call({ name: 'shell.bash', input: { cmd }, caller: localCaller })) as Answer).warnings
    expect(await warnings('echo 1 > a.txt')).toEqual([])
    expect(existsSync(join(dir, '.mcp.json'))).toBe(false)
    expect(await warnings("echo '{}' > .mcp.json; mkdir .vscode")).toEqual([
      'While this ran, .mcp.json, .vscode was created, which other programs obey: ask a person to check it before use.',
    ])
    expect(logged.join()).toContain('was created while a command ran in the sandbox')
    // From now on the file is protected.
    expect(await warnings('echo 2 > .mcp.json || true')).toEqual([])
    expect(readFileSync(join(dir, '.mcp.json'), 'utf8')).toBe('{}\n')
  })

  it('a warning says that the sandbox has no network if a connection fails', async () => {
    const { app } = await open()
    const input = { cmd: '(exec 3<>/dev/tcp/127.0.0.1/5432) 2>&1 || echo closed' }
    const { warnings } = (await app.call({ name: 'shell.bash', input, caller: localCaller })) as Answer
    expect(warnings).toEqual([expect.stringContaining('The sandbox of this command has no network')])
  })

  it('a warning says that the sandbox of a background command has no network if a connection fails', async () => {
    const { app } = await open()
    const call = async (name: string, input: object) => (await app.call({ name, input, caller: localCaller })) as Answer
    const command = '(exec 3<>/dev/tcp/127.0.0.1/5432) 2>&1 || echo closed; cat'
    const input = { command, shell: true, wait_seconds: 10, until: 'closed' }
    const { value, warnings } = await call('shell.background_run', input)
    expect(warnings).toEqual([expect.stringContaining('The sandbox of this command has no network')])
    expect((await call('shell.task_output', { task_id: value.task_id })).warnings).toEqual(warnings)
    expect((await call('shell.task_status', { task_id: value.task_id })).warnings).toEqual([])
  })

  it('a command line can write to aliased folders, although the rest of the state is hidden', async () => {
    const { call, dir } = await open()
    mkdirSync(join(dir, 'state/files'), { recursive: true })
    writeFileSync(join(dir, 'state/token'), 'canary')
    writeFileSync(join(dir, 'state/files/a.txt'), 'kept\n')
    const cmd = 'cat file_state_dir/a.txt; echo new > file_state_dir/b.txt; ls state; echo c > file_cache_dir/c.txt'
    const { stdout, stderr } = await call('bash', { cmd })
    expect([stdout.startsWith('kept\n'), stdout.includes('token'), stderr]).toEqual([true, false, ''])
    expect(readFileSync(join(dir, 'state/files/b.txt'), 'utf8')).toBe('new\n')
    expect(await call('bash', { cmd: 'pwd; cat a.txt', cwd: 'file_state_dir' })).toMatchObject({
      stdout: expect.stringMatching(/files\nkept\n$/),
    })
  })

  it('a script has no network access, not even to this machine', async () => {
    const { createServer } = await import('node:http')
    let hits = 0
    const server = createServer((_request, response) => {
      hits++
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const { fails } = await open()
    const error = await fails('bash', { cmd: `echo > /dev/tcp/127.0.0.1/${port}` })
    expect(error.code).toBe('E_TOOL_FAILED')
    await new Promise((resolve) => server.close(resolve))
    expect(hits).toBe(0)
  })

  it("Pegboard's files and keys in the workspace are hidden, and hooks are read-only", async () => {
    const { call, fails, dir } = await open({ denied_paths: ['private'] })
    mkdirSync(join(dir, '.git/hooks'), { recursive: true })
    mkdirSync(join(dir, 'state'), { recursive: true })
    mkdirSync(join(dir, 'private'))
    writeFileSync(join(dir, 'private/x'), 'canary')
    writeFileSync(join(dir, '.env'), 'KEY=canary')
    writeFileSync(join(dir, 'state/token'), 'canary')
    writeFileSync(join(dir, 'mcp.config.json'), 'canary')
    expect(await call('bash', { cmd: 'cat .env mcp.config.json; ls state; ls p?ivate' })).toMatchObject({ stdout: '' })
    expect(await fails('bash', { cmd: 'echo evil > .git/hooks/pre-commit' })).toMatchObject({ code: 'E_TOOL_FAILED' })
  })

  it('a script is held to its limits, and ends with everything it started', async () => {
    const { fails, call, dir } = await open({ max_processes: 20 })
    expect(await fails('script', { content: 'setsid sleep 4321 & sleep 4321', timeout_seconds: 1 })).toMatchObject({
      code: 'E_TIMEOUT',
    })
    expect(spawnSync('pgrep', ['-f', 'sleep 4321']).stdout.toString()).toBe('')
    expect(await fails('bash', { cmd: 'for i in $(seq 40); do sleep 100 & done; wait' })).toMatchObject({
      message: expect.stringMatching(/more than 20 processes|exited with code/),
    })
    expect(await call('bash', { cmd: 'env; pwd' })).toMatchObject({ stdout: expect.stringContaining('HOME=/tmp\n') })
    expect(dir).not.toBe('')
  })

  it('allowed programs can be sandboxed too', async () => {
    const { fails, call } = await open({ sandbox: 'all', allowed_commands: ['cat', 'ls'] })
    expect(await fails('run', { command: 'cat', args: ['/etc/shadow'] })).toMatchObject({
      message: 'run exited with code 1',
    })
    expect(await call('run', { command: 'ls', args: ['/tmp'] })).toMatchObject({ exit_code: 0 })
  })
})

describe.runIf(POSIX)('foreground commands', () => {
  it('queue if a principal has sixteen', async () => {
    const { call, dir } = await open({ sandbox: 'off' })
    const go = join(dir, 'go')
    const started = join(dir, 'started')
    const cmd = `echo x >> '${started}'; while [ ! -e '${go}' ]; do sleep 0.1; done`
    const all = Array.from({ length: 17 }, () => call('bash', { cmd }))
    const count = (): number => (existsSync(started) ? readFileSync(started, 'utf8').length / 2 : 0)
    await expect.poll(count, { timeout: 20_000 }).toBe(16)
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(count()).toBe(16)
    writeFileSync(go, '')
    await Promise.all(all)
    expect(count()).toBe(17)
  }, 40_000)
})

describe.runIf(POSIX)('background commands', () => {
  it('can be listed, read, written to and ended [DIG-94]', async () => {
    const { call, fails, app } = await open({ allowed_commands: ['sh', 'cat'], sandbox: 'off', max_background: 2 })
    const started = await call('background_run', { command: 'cat', label: 'echo' })
    expect(started).toEqual({
      task_id: expect.any(String),
      label: 'echo',
      pid: expect.any(Number),
      status: 'running',
      started_at: expect.stringMatching(/Z$/),
    })
    const { task_id, pid } = started
    expect(await call('task_stdin', { task_id, text: '1\n2\n3\n' })).toEqual({ task_id, written: 6, closed: false })
    await expect.poll(async () => (await call('task_output', { task_id, tail: 2 })).stdout).toBe('2\n3\n')
    expect(await call('task_list')).toMatchObject({ total: 1, tasks: [{ task_id, status: 'running' }] })

    const stubborn = await call('background_run', {
      command: 'sh',
      args: ['-c', 'trap "" TERM; sleep 1000 & echo on; wait; sleep 1000'],
    })
    await expect.poll(async () => (await call('task_output', { task_id: stubborn.task_id })).stdout).toBe('on\n')
    expect(await fails('background_run', { command: 'cat' })).toMatchObject({ code: 'E_OVERLOADED' })
    const before = Date.now()
    expect(await call('task_kill', { task_id: stubborn.task_id })).toMatchObject({
      status: 'killed',
      signal: 'SIGKILL',
    })
    expect(Date.now() - before).toBeLessThan(15_000)
    expect(await gone(stubborn.pid)).toBe(true)

    await call('task_stdin', { task_id, text: '4\n', close: true })
    expect(await call('task_wait', { task_id, timeout_seconds: 5 })).toMatchObject({ status: 'ended', exit_code: 0 })
    expect(await call('task_status', { task_id })).toMatchObject({ status: 'ended' })
    expect(await call('task_output', { task_id, stream: 'stdout' })).toMatchObject({ stdout: '1\n2\n3\n4\n' })
    expect(await fails('task_stdin', { task_id, text: 'x' })).toMatchObject({
      message: 'Its standard input is closed.',
    })
    expect(await gone(pid)).toBe(true)

    const others = { ...localCaller, principal: 'somebody' }
    await expect(app.call({ name: 'shell.task_output', input: { task_id }, caller: others })).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
  })

  it('are interactive: the answer to an input is returned with it', async () => {
    const { call } = await open({ allowed_commands: ['cat'], sandbox: 'off' })
    const program = 'while read -r line; do echo "got $line"; [ "$line" = slow ] && sleep 0.6 && echo "late"; done'
    const begun = await call('background_run', { command: `echo ready; ${program}`, shell: true, wait_seconds: 10 })
    expect(begun).toMatchObject({ status: 'running', stdout: 'ready\n', stderr: '', next: '6.0' })
    const { task_id } = begun
    expect(await call('task_stdin', { task_id, text: 'a\n', wait_seconds: 10 })).toMatchObject({
      written: 2,
      stdout: 'got a\n',
      next: '12.0',
    })
    expect(await call('task_stdin', { task_id, text: 'slow\n', wait_seconds: 10, until: 'late' })).toMatchObject({
      stdout: 'got slow\nlate\n',
    })
    expect(await call('task_output', { task_id, since: '6.0' })).toMatchObject({ stdout: 'got a\ngot slow\nlate\n' })
    expect(await call('task_output', { task_id, since: '12.0', stream: 'stderr' })).toMatchObject({ stderr: '' })
    expect(await call('task_stdin', { task_id, text: '', close: true, wait_seconds: 10 })).toMatchObject({
      status: 'ended',
      exit_code: 0,
    })
  })

  it('get only the variables that a call may set', async () => {
    const { call, fails } = await open({ allowed_commands: ['env'], sandbox: 'off' })
    for (const input of [{ command: 'env' }, { command: 'env', shell: true }]) {
      const { task_id } = await call('background_run', { ...input, env: { TZ: 'Asia/Tokyo' } })
      await call('task_wait', { task_id })
      expect((await call('task_output', { task_id, tail: 500 })).stdout).toContain('TZ=Asia/Tokyo\n')
      expect(await fails('background_run', { ...input, env: { LD_PRELOAD: 'x' } })).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
      })
    }
  })

  it('show their processes, which can be interrupted, and no others', async () => {
    const { call, fails, app } = await open({ allowed_commands: ['sh'], sandbox: 'off' })
    const { task_id, pid } = await call('background_run', {
      command: 'sh',
      args: ['-c', 'trap "echo caught" INT; sleep 1000 & while :; do wait; done'],
      wait_seconds: 0,
    })
    // Each process sets its limits before it becomes the command.
    const childOf = async (): Promise<Answer> =>
      (await call('ps', { filter: 'SLEEP' })).processes.find(
        ({ parent, command }: Answer) => parent === pid && command === 'sleep 1000',
      )
    await expect.poll(childOf).toBeDefined()
    const child = await childOf()
    expect((await call('ps')).total).toBe(2)
    expect(child).toEqual({
      pid: expect.any(Number),
      parent: pid,
      bytes: expect.any(Number),
      command: 'sleep 1000',
      task_id,
    })
    expect((await call('ps', { filter: 'no such' })).total).toBe(0)
    expect(await call('kill', { pid, signal: 'SIGINT' })).toEqual({ pid, signal: 'SIGINT', sent: true })
    await expect.poll(async () => (await call('task_output', { task_id })).stdout).toBe('caught\n')
    expect(await call('kill', { pid: child.pid, signal: 'SIGKILL' })).toMatchObject({ sent: true })
    expect(await gone(child.pid)).toBe(true)
    for (const other of [process.pid, 1])
      expect(await fails('kill', { pid: other }), String(other)).toMatchObject({ code: 'E_NOT_FOUND' })
    const others = { ...localCaller, principal: 'somebody' }
    await expect(app.call({ name: 'shell.kill', input: { pid }, caller: others })).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
    expect(((await app.call({ name: 'shell.ps', input: {}, caller: others })) as Answer).value.total).toBe(0)
  })

  it('end with the server, and at their timeout', async () => {
    const { call, app, dir } = await open({ allowed_commands: ['sh'], sandbox: 'off', background_timeout: 1 })
    const { task_id } = await call('background_run', { command: 'sh', args: ['-c', 'sleep 1000'] })
    expect(await call('task_wait', { task_id, timeout_seconds: 5 })).toMatchObject({ status: 'timeout' })
    await call('background_run', { command: 'sh', args: ['-c', 'sleep 1000 & echo $! > pid; wait'] })
    const pid = await readPid(join(dir, 'pid'))
    expect(alive(pid)).toBe(true)
    await app.stop()
    expect(await gone(pid)).toBe(true)
  })

  it('do not survive a killed server', async () => {
    const { config, env, dir } = place({
      modules: { shell: { config: { enabled: true, allowed_commands: ['sleep'] } } },
    })
    const server = spawn(process.execPath, [cli, 'serve', '--config', config], {
      cwd: dir,
      env,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    onTestFinished(() => void server.kill('SIGKILL'))
    let text = ''
    server.stdout.on('data', (chunk) => {
      text += chunk
    })
    const send = (message: object): void =>
      void server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    const clientInfo = { name: 'test', version: '1' }
    send({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } })
    await expect.poll(() => text).toContain('"id":1')
    send({ method: 'notifications/initialized' })
    const input = { command: 'sleep', args: ['1000'] }
    send({ id: 2, method: 'tools/call', params: { name: 'shell__background_run', arguments: input } })
    await expect.poll(() => text).toContain('"id":2')
    const pid = Number(/"pid\\?":\s*(\d+)/.exec(text)?.[1])
    expect(alive(pid)).toBe(true)
    server.kill('SIGKILL')
    await once(server, 'exit')
    expect(await gone(pid)).toBe(true)
  })
})
