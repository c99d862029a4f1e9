import { spawn } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, delimiter, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createApp } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { answerOf, servers, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { LISTED } from '../listed-server.ts'

/** A server whose tool reports what it can do: write a file, read a file, reach an address. */
const PROBE = `
import { createInterface } from 'node:readline'
import { readFileSync, writeFileSync } from 'node:fs'
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
const can = async (work) => { try { await work(); return 'yes' } catch (error) { return String(error.cause?.code ?? error.code ?? error.message) } }
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'probe', version: '1' } } })
  else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'probe', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call') {
    const { write, read, url } = params.arguments
    const answer = {
      write: await can(() => writeFileSync(write, 'x')),
      read: await can(() => readFileSync(read)),
      url: await can(() => fetch(url)),
      home: process.env.HOME,
    }
    say({ id, result: { content: [{ type: 'text', text: JSON.stringify(answer) }] } })
  } else if (id !== undefined) say({ id, error: { code: -32601, message: 'no' } })
}
`

async function website(): Promise<string> {
  const server = createServer((_request, response) => void response.end('hello'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The processes whose command line contains this. */
const running = (text: string): readonly string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })

describe.skipIf(process.platform !== 'linux')('a server in bubblewrap', () => {
  it('writes only its folders, reads only what it may, and has a home of its own', async () => {
    const dir = temporaryFolder()
    for (const name of ['out', 'in', 'secret']) mkdirSync(join(dir, name))
    for (const name of ['in/a.txt', 'secret/b.txt', 'probe.mjs'])
      writeFileSync(join(dir, name), name === 'probe.mjs' ? PROBE : 'x')
    mkdirSync(join(dir, 'server'))
    writeFileSync(join(dir, 'server', 'probe.mjs'), PROBE)
    const url = await website()
    const probe = (network: boolean) => ({
      command: process.execPath,
      args: [join(dir, 'server', 'probe.mjs')],
      sandbox: { kind: 'auto', network, read: ['in'], write: ['out'] },
    })
    const { app } = await startApp({ mcpServers: { closed: probe(false), open: probe(true) } }, dir)
    const client = await connectTo(app)
    const ask = async (server: string, write: string, read: string) =>
      answerOf(
        await callTool(client, {
          name: `${server}__probe`,
          arguments: { write: join(dir, write), read: join(dir, read), url },
        }),
      )
    expect(await ask('closed', 'out/c.txt', 'in/a.txt')).toEqual({
      write: 'yes',
      read: 'yes',
      url: expect.stringMatching(/^E/),
      home: join(dir, 'state', 'sandboxes', 'closed'),
    })
    expect(readFileSync(join(dir, 'out', 'c.txt'), 'utf8')).toBe('x')
    expect(await ask('closed', 'in/c.txt', 'secret/b.txt')).toMatchObject({ write: 'EROFS', read: 'ENOENT' })
    // What it writes beside its script is in a /tmp of its own.
    expect(await ask('closed', 'server/c.txt', 'mcp.config.json')).toMatchObject({ read: 'ENOENT' })
    expect(existsSync(join(dir, 'server', 'c.txt'))).toBe(false)
    expect(await ask('open', 'out/d.txt', 'in/a.txt')).toMatchObject({ url: 'yes' })
  }, 120_000)

  it('does not see files of Pegboard, or those beside its program', async () => {
    const dir = temporaryFolder()
    // As uvx is in ~/.local/bin, beside keys and the state of Pegboard.
    mkdirSync(join(dir, 'home/.local/bin'), { recursive: true })
    mkdirSync(join(dir, 'home/.local/share'))
    mkdirSync(join(dir, 'state'))
    for (const name of ['home/.local/share/key', 'home/note', 'state/secret', 'mcp.config.json'])
      writeFileSync(join(dir, name), 'x')
    writeFileSync(join(dir, 'home/.local/bin/probe'), `#!${process.execPath}\n${PROBE}`)
    writeFileSync(join(dir, 'home/server.mjs'), PROBE)
    chmodSync(join(dir, 'home/.local/bin/probe'), 0o755)
    symlinkSync('.', join(dir, 'link'))
    const { app } = await startApp(
      {
        mcpServers: {
          program: { command: join(dir, 'home/.local/bin/probe'), sandbox: 'auto' },
          script: { command: process.execPath, args: [join(dir, 'home/server.mjs')], sandbox: 'auto' },
          wide: { command: process.execPath, args: [join(dir, 'home/server.mjs')], sandbox: { read: ['.'] } },
          linked: { command: process.execPath, args: [join(dir, 'home/server.mjs')], sandbox: { read: ['link'] } },
        },
      },
      dir,
    )
    const client = await connectTo(app)
    const reads = async (server: string, file: string): Promise<unknown> =>
      answerOf(
        await callTool(client, {
          name: `${server}__probe`,
          arguments: { write: '/x', read: join(dir, file), url: '' },
        }),
      ).read
    expect(await reads('program', 'home/.local/share/key')).toBe('ENOENT')
    expect(await reads('script', 'home/note')).toBe('ENOENT')
    expect(await reads('wide', 'home/note')).toBe('yes')
    expect(await reads('wide', 'state/secret')).toBe('ENOENT')
    expect(await reads('wide', 'mcp.config.json')).toBe('EACCES')
    expect(await reads('linked', 'link/home/note')).toBe('yes')
    expect(await reads('linked', 'link/state/secret')).toBe('ENOENT')
    expect(await reads('linked', 'link/mcp.config.json')).toBe('EACCES')
  }, 120_000)

  it('sees no file of Pegboard that another program replaces or adds while it runs', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'sub'))
    writeFileSync(join(dir, 'other.env'), 'KEY=x')
    for (const name of ['mcp.config.json', 'note', 'sub/note']) writeFileSync(join(dir, name), 'x')
    symlinkSync('note', join(dir, 'link'))
    mkdirSync(join(dir, 'server'))
    writeFileSync(join(dir, 'server', 'probe.mjs'), PROBE)
    const probe = { command: process.execPath, args: [join(dir, 'server/probe.mjs')] }
    const { app } = await startApp(
      { mcpServers: { wide: { ...probe, sandbox: { read: ['.'] } }, other: { ...probe, envFile: 'other.env' } } },
      dir,
    )
    const client = await connectTo(app)
    const reads = async (file: string): Promise<unknown> =>
      answerOf(
        await callTool(client, { name: 'wide__probe', arguments: { write: '/x', read: join(dir, file), url: '' } }),
      ).read
    for (const name of ['note', 'link', 'sub/note']) expect(await reads(name)).toBe('yes')
    for (const name of ['mcp.config.json', 'other.env']) {
      expect(await reads(name)).toBe('EACCES')
      copyFileSync(join(dir, name), join(dir, 'new'))
      renameSync(join(dir, 'new'), join(dir, name))
      expect(await reads(name)).toBe('EACCES')
    }
    writeFileSync(join(dir, 'pegboard.lock.json.tmp'), 'x')
    expect(await reads('pegboard.lock.json.tmp')).toBe('ENOENT')
    writeFileSync(join(dir, 'sub/later'), 'x')
    expect(await reads('sub/later')).toBe('yes')
  }, 120_000)

  it.each(['modules', 'modules/own', 'open', 'logs'])(
    'does not start if it could write what Pegboard runs, trusts or keeps secret in %s',
    async (write) => {
      const dir = temporaryFolder()
      for (const name of ['modules/own', 'open', 'logs', 'out', 'mine']) mkdirSync(join(dir, name), { recursive: true })
      for (const name of ['open/probe.mjs', 'mine/probe.mjs', 'out/probe.mjs']) writeFileSync(join(dir, name), PROBE)
      writeFileSync(join(dir, 'logs/audit.jsonl'), '')
      const { app } = await startApp(
        {
          modulesDir: 'modules',
          audit: { file: 'logs/audit.jsonl' },
          mcpServers: {
            open: { command: process.execPath, args: [join(dir, 'open/probe.mjs')] },
            refused: { command: process.execPath, args: [join(dir, 'out/probe.mjs')], sandbox: { write: [write] } },
            // A server may write its own program: it runs in the sandbox alone.
            own: { command: process.execPath, args: [join(dir, 'mine/probe.mjs')], sandbox: { write: ['mine'] } },
          },
        },
        dir,
      )
      await app.upstreams.refresh('refused').catch(() => undefined)
      const { detail, reason } = app.upstreams.status().find(({ id }) => id === 'refused') ?? {}
      expect(detail ?? reason).toMatch(
        /^its sandbox is not available: "write" contains .*, which Pegboard runs or trusts \(mcpServers\.refused\.sandbox\)$/,
      )
      await app.upstreams.refresh('own')
      expect(app.upstreams.status().find(({ id }) => id === 'own')).toMatchObject({ state: 'ready' })
    },
    120_000,
  )

  it('is a real server that keeps its memory in its folder alone', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'mine'))
    // The sandbox has a /tmp of its own.
    const elsewhere = join('/var/tmp', `${basename(dir)}.jsonl`)
    const memory = (file: string) => ({
      ...servers.memory(file),
      sandbox: { kind: 'bubblewrap', network: false, write: ['mine'] },
    })
    const { app } = await startApp(
      { mcpServers: { good: memory(join(dir, 'mine', 'memory.jsonl')), bad: memory(elsewhere) } },
      dir,
    )
    const client = await connectTo(app)
    const remember = (server: string) =>
      callTool(client, {
        name: `${server}__create_entities`,
        arguments: { entities: [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }] },
      })
    expect((await remember('good')).isError).not.toBe(true)
    expect(readFileSync(join(dir, 'mine', 'memory.jsonl'), 'utf8')).toContain('likes tea')
    expect((await remember('bad')).isError).toBe(true)
    expect(existsSync(elsewhere)).toBe(false)
    await app.stop()
    expect(running(join(dir, 'mine'))).toEqual([])
  }, 120_000)

  it('is gone after Pegboard is killed', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'mine'))
    writeFileSync(
      join(dir, 'mcp.config.json'),
      JSON.stringify({
        mcpServers: {
          memory: {
            ...servers.memory(join(dir, 'mine', 'memory.jsonl')),
            start: 'eager',
            sandbox: { kind: 'auto', write: ['mine'] },
          },
        },
      }),
    )
    const main = join(import.meta.dirname, '../../dist/cli/main.js')
    const pegboard = spawn(process.execPath, [main, 'serve', '--stdio', '--config', join(dir, 'mcp.config.json')], {
      env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    onTestFinished(() => void pegboard.kill('SIGKILL'))
    const ask = {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
    }
    pegboard.stdin.write(`${JSON.stringify(ask)}\n`)
    pegboard.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
    pegboard.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' })}\n`)
    pegboard.stdout.resume()
    // bwrap, its inner process, and the server.
    await expect.poll(() => running(join(dir, 'mine')).length).toBeGreaterThan(0)
    pegboard.kill('SIGKILL')
    await expect.poll(() => running(join(dir, 'mine'))).toEqual([])
    await expect.poll(() => running('server-memory').filter((pid) => readEnvironment(pid).includes(dir))).toEqual([])
  }, 120_000)

  it('does not start without its sandbox', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'tools.json'), '{"tools":[{"name":"a"}]}')
    const listed = { command: process.execPath, args: [LISTED, join(dir, 'tools.json')] }
    const env = { PATH: '/nowhere', HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }
    const { config } = readConfig(
      JSON.stringify({
        mcpServers: {
          none: { ...listed, sandbox: 'auto' },
          absent: { ...listed, sandbox: { read: ['nowhere'] } },
          engine: { ...listed, command: 'npx', sandbox: 'docker' },
          image: { ...listed, sandbox: 'docker' },
        },
      }),
      join(dir, 'mcp.config.json'),
      { env, cwd: dir },
    )
    const app = createApp(config, { env, connectDelayMs: { cold: 0, known: 0 } })
    onTestFinished(() => app.stop())
    await app.start()
    const reason = async (id: string): Promise<string | undefined> => {
      await app.upstreams.refresh(id).catch(() => undefined)
      const status = app.upstreams.status().find((one) => one.id === id)
      return status?.detail ?? status?.reason
    }
    expect(await reason('none')).toBe(
      'its sandbox is not available: bubblewrap (bwrap) is not installed (mcpServers.none.sandbox)',
    )
    expect(await reason('absent')).toContain(`its sandbox is not available: ${join(dir, 'nowhere')} does not exist`)
    expect(await reason('engine')).toContain('its sandbox is not available: neither docker nor podman is on PATH')
    expect(await reason('image')).toContain('"image" must name an image that has it')
  }, 120_000)
})

it('a server in a container gets its mounts and variables, and nothing else', async () => {
  const dir = temporaryFolder()
  for (const name of ['bin', 'in', 'out']) mkdirSync(join(dir, name))
  writeFileSync(join(dir, 'tools.json'), '{"tools":[{"name":"a"}]}')
  writeFileSync(
    join(dir, 'bin', 'docker'),
    `#!/bin/sh\nprintf '%s\\n' "$@" > ${dir}/docker.txt\nexec ${process.execPath} ${LISTED} ${dir}/tools.json\n`,
  )
  chmodSync(join(dir, 'bin', 'docker'), 0o755)
  const env = {
    // Looking into the first one fails, as in a folder that this user may not enter.
    PATH: [join(dir, 'tools.json'), join(dir, 'bin'), '/usr/bin', '/bin'].join(delimiter),
    HOME: dir,
    PEGBOARD_STATE_DIR: join(dir, 'state'),
  }
  const { config } = readConfig(
    JSON.stringify({
      mcpServers: {
        box: {
          command: 'npx',
          args: ['-y', 'box-mcp@1.0.0'],
          env: { TOKEN: 'hunter2-hunter2' },
          sandbox: { kind: 'docker', network: false, read: ['in'], write: ['out'] },
        },
      },
    }),
    join(dir, 'mcp.config.json'),
    { env, cwd: dir },
  )
  const app = createApp(config, { env, connectDelayMs: { cold: 0, known: 0 } })
  onTestFinished(() => app.stop())
  await app.start()
  await app.upstreams.refresh('box')
  expect(app.upstreams.status()[0]).toMatchObject({ state: 'ready', tools: 1 })
  const home = join(dir, 'state', 'sandboxes', 'box')
  expect(readFileSync(join(dir, 'docker.txt'), 'utf8').trim().split('\n')).toEqual([
    ...['run', '-i', '--rm', '--init', '--read-only', '--tmpfs', '/tmp:rw,exec,size=256m'],
    ...['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--pids-limit', '512', '--network', 'none'],
    ...['--user', `${process.getuid?.()}:${process.getgid?.()}`],
    ...['--mount', `type=bind,source=${join(dir, 'in')},target=${join(dir, 'in')},readonly`],
    ...['--mount', `type=bind,source=${join(dir, 'out')},target=${join(dir, 'out')}`],
    ...['--mount', `type=bind,source=${home},target=${home}`],
    ...['--workdir', home, '--env', `HOME=${home}`, '--env', 'TOKEN', '--env', 'PEGBOARD_CHILD'],
    ...['node:22-slim', 'npx', '-y', 'box-mcp@1.0.0'],
  ])
}, 60_000)

function readEnvironment(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    return ''
  }
}
