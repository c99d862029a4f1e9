import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, onTestFinished } from 'vitest'
import { cli } from '../process.ts'

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/**
 * Runs a command of the built program in a pseudo terminal that echoes what is typed, as a window does.
 * @param typed answers, each typed when its prompt is on the screen
 */
export async function inPseudoTerminal(
  argv: readonly string[],
  typed: ReadonlyArray<readonly [prompt: string, answer: string]>,
  { env, cwd }: { readonly env: Record<string, string | undefined>; readonly cwd: string },
): Promise<{ readonly code: number; readonly screen: string }> {
  const command = [process.execPath, cli, ...argv].map(quoted).join(' ')
  const child = spawn(
    'script',
    ['--quiet', '--return', '--flush', '--echo', 'always', '--command', command, '/dev/null'],
    {
      ...{ env: { ...env, SHELL: '/bin/sh', TERM: 'xterm' }, cwd, stdio: ['pipe', 'pipe', 'inherit'] },
    },
  )
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    child.kill()
    await ended
  })
  let screen = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text
  })
  let seen = 0
  for (const [prompt, answer] of typed) {
    await expect.poll(() => screen.slice(seen)).toContain(prompt)
    seen = screen.length
    child.stdin.write(`${answer}\r`)
  }
  const [code] = await ended
  return { code, screen }
}
