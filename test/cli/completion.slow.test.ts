import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { servers, temporaryFolder } from '../app.ts'
import { LISTED } from '../listed-server.ts'
import { folder, pegboard, terminal } from './terminal.ts'

/** The scripts of `pegboard completion` in the real shells. */
const main = join(import.meta.dirname, '../../dist/cli/main.js')
const isThere = (shell: string): boolean => spawnSync(shell, ['--version']).error === undefined
// In CI a missing shell is a failure.
const withShell = (shell: string) => it.skipIf(process.env['CI'] !== 'true' && !isThere(shell))

/** A folder where `pegboard` is on the PATH and a server is known. */
function machine(): { readonly dir: string; readonly env: NodeJS.ProcessEnv } {
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'pegboard'), `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@"\n`)
  chmodSync(join(dir, 'pegboard'), 0o755)
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify({ mcpServers: { everything: servers.everything } }))
  const env = {
    ...process.env,
    PATH: `${dir}${delimiter}${process.env['PATH']}`,
    HOME: dir,
    PEGBOARD_STATE_DIR: join(dir, 'state'),
    PEGBOARD_CONFIG: join(dir, 'mcp.config.json'),
    TERM: 'dumb',
  }
  return { dir, env }
}

/** What each shell offers for a line. */
const complete: Readonly<Record<string, (line: string, dir: string, env: NodeJS.ProcessEnv) => readonly string[]>> = {
  bash(line, dir, env) {
    const words = line.split(' ')
    const script = `source <(pegboard completion bash); COMP_WORDS=(${words.map((one) => `'${one}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _pegboard; printf '%s\\n' "\${COMPREPLY[@]}"`
    return linesOf(execFileSync('bash', ['--norc', '-c', script], { cwd: dir, env, encoding: 'utf8' }))
  },
  zsh(line, dir, env) {
    // The widgets of a terminal are replaced by functions that print what they would offer.
    const words = line.split(' ')
    const script = `compdef() { : }
source <(pegboard completion zsh)
compadd() { local name=\${@[-1]}; print -rl -- \${(P)name} }
_describe() { local name=\${@[-1]}; print -rl -- \${\${(P)name}%%:*} }
_files() { print -l *(N) }
words=(${words.map((one) => `'${one}'`).join(' ')}); CURRENT=${words.length}; _pegboard`
    const prefix = words.at(-1) ?? ''
    const offered = linesOf(execFileSync('zsh', ['-f', '-c', script], { cwd: dir, env, encoding: 'utf8' }))
    return offered.filter((one) => one.startsWith(prefix))
  },
  fish(line, dir, env) {
    const script = `pegboard completion fish | source; complete -C '${line}'`
    const offered = linesOf(execFileSync('fish', ['--no-config', '-c', script], { cwd: dir, env, encoding: 'utf8' }))
    return offered.map((one) => one.split('\t', 1)[0] as string)
  },
}

const linesOf = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '')

describe.each(Object.keys(complete))('pegboard completion %s', (shell) => {
  withShell(shell)('completes commands, options, words, files, servers and tools', () => {
    const { dir, env } = machine()
    const offer = (line: string): readonly string[] => complete[shell]?.(line, dir, env) ?? []
    expect(offer('pegboard se')).toEqual(expect.arrayContaining(['serve', 'search', 'secret']))
    expect(offer('pegboard se')).not.toContain('call')
    expect(offer('pegboard serve --pro')).toEqual(['--profile'])
    expect(offer('pegboard list m')).toEqual(['modules'])
    expect(offer('pegboard --config mcp.config.json list s')).toEqual(['servers'])
    expect(offer('pegboard serve --config mcp')).toContain('mcp.config.json')
    expect(offer('pegboard auth e')).toEqual(['everything'])
    // Servers are known by name from the start, their tools once they were listed.
    expect(offer('pegboard call mcp_everything.ec')).toEqual([])
    execFileSync('pegboard', ['list'], { cwd: dir, env, stdio: 'ignore' })
    expect(offer('pegboard call mcp_everything.ec')).toEqual(['mcp_everything.echo'])
    expect(offer('pegboard disable everything.ec')).toEqual(['everything.echo'])
    expect(offer('pegboard disable mcp_everything.echo hello.say')).toEqual(['hello.say_hello'])
    expect(offer('pegboard call mcp_everything.echo ')).toEqual([])
    expect(offer('pegboard usage --by c')).toEqual(['client'])
    expect(offer('pegboard check --client cu')).toEqual(['cursor'])
    expect(offer('pegboard init --from cur')).toEqual(['cursor'])
    execFileSync('pegboard', ['disable', 'everything'], { cwd: dir, env, stdio: 'ignore' })
    expect(offer('pegboard undo ')).toEqual([expect.stringMatching(/^\d{8}T\d{6}Z-/)])
  })
})

it('completes what enable, disable and remove take, profiles, secrets, and tools by their short names', async () => {
  const at = folder({
    'tools.json': { tools: ['read_box', 'delete_box'].map((name) => ({ name, description: `Does ${name}.` })) },
    'mcp.config.json': {
      mcpServers: {
        box: { command: process.execPath, args: [LISTED, 'tools.json'] },
        web: { command: process.execPath, args: [LISTED, 'tools.json'], disabled: true },
        web2: { url: 'https://web.example/mcp', disabled: true },
      },
      openapi: { website: { document: 'missing.json', enabled: false } },
      modules: { shell: { enabled: false } },
      tools: { 'mcp_box.delete_*': { enabled: false } },
      profiles: { work: {}, world: {} },
    },
  })
  onTestFinished(() => at.remove())
  const offer = async (line: string): Promise<readonly string[]> => {
    const words = line.split(' ').slice(1)
    const { io, out } = terminal(at.dir)
    const env = { ...io.env, PEGBOARD_CONFIG: 'mcp.config.json', PEGBOARD_KEYRING: 'off' }
    await run(['completion', 'words', '--', ...words], { ...io, env })
    return linesOf(out())
  }
  await pegboard(at.dir, 'list', '--config', 'mcp.config.json')
  expect(await offer('pegboard disable b')).toEqual(['box', 'box.read_box'])
  expect(await offer('pegboard disable box hel')).toEqual(['hello', ...(await offer('pegboard disable hello.'))])
  expect(await offer('pegboard disable we')).toEqual([])
  // A server is called `web`, so the module has another name.
  expect(await offer('pegboard enable we')).toEqual(['web', 'web2', 'website'])
  expect(await offer('pegboard enable s')).toEqual(['shell'])
  expect(await offer('pegboard enable mcp_box.')).toEqual(['mcp_box.delete_*', 'mcp_box.delete_box'])
  expect(await offer('pegboard enable box.')).toEqual(['box.delete_*', 'box.delete_box'])
  expect(await offer('pegboard remove web')).toEqual(['web', 'web2', 'website'])
  expect(await offer('pegboard remove shel')).toEqual([])
  expect(await offer('pegboard why read_b')).toEqual(['read_box'])
  expect(await offer('pegboard disable read_b')).toEqual([])
  expect(await offer('pegboard list --profile wor')).toEqual(['work', 'world'])
  expect(await offer('pegboard list --profile d')).toEqual(['default'])
  const { io, input } = terminal(at.dir, false)
  const stored = run(['secret', 'set', 'GITHUB_TOKEN'], { ...io, env: { ...io.env, PEGBOARD_KEYRING: 'off' } })
  input.end('secret')
  expect(await stored).toBe(0)
  expect(await offer('pegboard secret ')).toEqual(['set', 'list', 'rm'])
  expect(await offer('pegboard secret rm G')).toEqual(['GITHUB_TOKEN'])
  expect(await offer('pegboard secret list ')).toEqual([])
})

it('completion starts no server and prints no warning', () => {
  const { dir, env } = machine()
  writeFileSync(
    join(dir, 'mcp.config.json'),
    JSON.stringify({ mcpServers: { x: { command: 'sh', args: ['-c', 'touch started'], start: 'eager' } } }),
  )
  const { stdout, stderr, status } = spawnSync('pegboard', ['completion', 'tools'], { cwd: dir, env, encoding: 'utf8' })
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 })
  expect(stdout).not.toContain('x.')
  expect(spawnSync('ls', ['started'], { cwd: dir }).status).not.toBe(0)
})
