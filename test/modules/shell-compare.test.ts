import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { alive, gone } from '../process.ts'

const PACKAGE = '@wonderwhy-er/desktop-commander'
const theirs = join(import.meta.dirname, '../optional/node_modules', PACKAGE, 'dist/index.js')
if (!existsSync(theirs))
  process.stdout.write(
    `skipped: ${PACKAGE} beside the module shell; npm install --prefix test/optional --no-save --ignore-scripts ${PACKAGE}@0.2.52\n`,
  )

/** Both behind one Pegboard, in one folder, without a sandbox, because desktop-commander has none. */
async function open() {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'home'))
  const { app } = await startApp(
    {
      modules: { shell: { config: { enabled: true, sandbox: 'off', roots: ['.'] } } },
      mcpServers: {
        commander: { command: 'node', args: [theirs, '--no-onboarding'], cwd: dir, env: { HOME: join(dir, 'home') } },
      },
    },
    dir,
    { connectDelayMs: { cold: 0 } },
  )
  const run = async (name: string, input: unknown): Promise<Answer> =>
    (await app.call({ name, input, caller: localCaller })) as Answer
  return {
    dir,
    ours: async (action: string, input: unknown): Promise<Answer> => (await run(`shell.${action}`, input)).value,
    fails: async (action: string, input: unknown): Promise<Answer> =>
      await run(`shell.${action}`, input).then(
        () => undefined,
        (error) => error,
      ),
    theirs: async (action: string, input: unknown) => {
      const { result } = await run(`mcp_commander.${action}`, input)
      const text = result.content.map((block: Answer) => block.text).join('\n') as string
      return { text, isError: result.isError === true, pid: Number(/PID (\d+)/.exec(text)?.[1]) }
    },
  }
}

describe.runIf(existsSync(theirs) && process.platform !== 'win32')('beside desktop-commander, the module shell', () => {
  it('does what desktop-commander does for the same calls, and reports more', { timeout: 120_000 }, async () => {
    const { ours, fails, theirs } = await open()

    // The output of a command.
    const cmd = 'echo out; echo err >&2; exit 3'
    const other = await theirs('start_process', { command: cmd, timeout_ms: 5_000 })
    expect(other.text).toContain('out\nerr')
    // desktop-commander does not report the failure.
    expect(other.isError).toBe(false)
    expect((await fails('bash', { cmd })).data).toMatchObject({ exit_code: 3, stdout: 'out\n', stderr: 'err\n' })
    const loud = 'seq 1 2000 | tail -n 3'
    expect((await theirs('start_process', { command: loud, timeout_ms: 5_000 })).text).toContain('1998\n1999\n2000')
    expect((await ours('bash', { cmd: loud })).stdout).toBe('1998\n1999\n2000\n')

    // A program that reads lines, and reading its output from a position.
    const command = 'printf "> "; while read -r line; do echo "got $line"; printf "> "; done'
    const { pid } = await theirs('start_process', { command, timeout_ms: 5_000 })
    expect((await theirs('interact_with_process', { pid, input: 'a', timeout_ms: 5_000 })).text).toContain('got a')
    await theirs('force_terminate', { pid })

    const { task_id, stdout } = await ours('background_run', { command, shell: true, wait_seconds: 10, until: '> ' })
    expect(stdout).toBe('> ')
    const answer = await ours('task_stdin', { task_id, text: 'a\n', wait_seconds: 10, until: '> ' })
    expect(answer).toMatchObject({ stdout: 'got a\n> ', status: 'running' })
    await ours('task_stdin', { task_id, text: 'b\n', wait_seconds: 10, until: '> ' })
    expect((await ours('task_output', { task_id, since: answer.next })).stdout).toBe('got b\n> ')
    expect(await ours('task_kill', { task_id })).toMatchObject({ status: 'killed' })

    // A long command continues in the background, and leaves nothing behind when it is ended.
    const long = 'setsid sleep 1000 & echo "child $!"; sleep 1000'
    const childOf = (text: string): number => Number(/child (\d+)/.exec(text)?.[1])
    const begunThere = await theirs('start_process', { command: long, timeout_ms: 1_000 })
    expect(begunThere.text).toContain('child ')
    expect((await theirs('list_sessions', {})).text).toContain(`PID: ${begunThere.pid}`)
    await theirs('force_terminate', { pid: begunThere.pid })
    const orphan = childOf(begunThere.text)

    const begun = await ours('background_run', { command: long, shell: true, wait_seconds: 10, until: 'child ' })
    const child = childOf(begun.stdout)
    expect(alive(child)).toBe(true)
    expect((await ours('task_list', {})).tasks.at(-1)).toMatchObject({ task_id: begun.task_id, status: 'running' })
    await ours('task_kill', { task_id: begun.task_id })
    expect(await gone(child)).toBe(true)
    // The child of desktop-commander's command survives its parent.
    if (alive(orphan)) process.kill(orphan, 'SIGKILL')
  })
})
