import { describe, expect, it } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { describeInvocation, findConfigOption, toTypedCommands } from '../../src/cli/invocation.ts'
import { terminal } from './terminal.ts'

describe('calledAs', () => {
  it.each([
    ['/repo/dist/cli/main.js', {}, 'node dist/cli/main.js'],
    ['/other/dist/cli/main.js', {}, 'node /other/dist/cli/main.js'],
    ['/my other/main.js', {}, 'node "/my other/main.js"'],
    ['/repo/node_modules/.bin/pegboard', {}, 'npx pegboard'],
    ['/repo/dist/cli/main.js', { npm_lifecycle_event: 'npx' }, 'npx pegboard'],
    ['/repo/dist/cli/main.js', { npm_lifecycle_event: 'start' }, 'node dist/cli/main.js'],
    ['/usr/local/bin/pegboard', {}, 'pegboard'],
  ])('%s with %j is shown as %s', (script, env, typed) => {
    expect(describeInvocation(script, env, '/repo')).toBe(typed)
  })
})

describe('typable', () => {
  const { io } = terminal('/repo')
  const here = { ...io, self: { ...io.self, called: 'npx pegboard' } }

  it('shows commands as they must be typed', () => {
    expect(toTypedCommands('run `pegboard auth x`, or npx pegboard list', undefined, here)).toBe(
      'run `npx pegboard auth x`, or npx pegboard list',
    )
    expect(toTypedCommands('pegboard: 1 tool waits: pegboard review x', 'my tools.json', here)).toBe(
      'pegboard: 1 tool waits: npx pegboard --config "my tools.json" review x',
    )
  })

  it.each(commands.map(({ name }) => name))('knows pegboard %s', (name) => {
    expect(toTypedCommands(`pegboard ${name} x`, 'a.json', here)).toBe(`npx pegboard --config a.json ${name} x`)
  })

  it('shows help without a configuration', () => {
    expect(toTypedCommands('See pegboard help token.\n', 'a.json', here)).toBe('See npx pegboard help token.\n')
    expect(toTypedCommands('See pegboard help.\n', undefined, here)).toBe('See npx pegboard help.\n')
  })

  it('keeps log lines valid JSON, and shows full paths in non-interactive use', () => {
    const line = toTypedCommands('{"message":"pegboard review x"}', 'a b.json', terminal('/repo', false).io)
    expect(JSON.parse(line)).toEqual({ message: 'pegboard --config "/repo/a b.json" review x' })
    const elsewhere = { ...io, self: { ...io.self, called: 'node "/my other/main.js"' } }
    const help = toTypedCommands('{"hint":"See pegboard help list."}', undefined, elsewhere)
    expect(JSON.parse(help)).toEqual({ hint: 'See node "/my other/main.js" help list.' })
  })
})

describe('configIn', () => {
  it.each([
    [['list', '--config', 'a.json'], 'a.json'],
    [['-c', 'a.json', 'list'], 'a.json'],
    [['list', '--config=a.json'], 'a.json'],
    [['list'], undefined],
  ])('for %j returns %s', (argv, file) => {
    expect(findConfigOption(argv)).toBe(file)
  })
})
