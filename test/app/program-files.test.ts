import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { filesOfProgram } from '../../src/app/program-files.ts'
import { temporaryFolder } from '../app.ts'

/** The code of `uvx` with these arguments, in a folder with the packages `tool` and `data`. */
function codeOf(...args: string[]): readonly string[] {
  const cwd = temporaryFolder()
  for (const name of ['tool', 'data']) {
    mkdirSync(join(cwd, name))
    writeFileSync(join(cwd, name, 'pyproject.toml'), '')
  }
  const { code } = filesOfProgram({ kind: 'stdio', command: 'uvx', args, env: {}, cwd }, {}, [])
  return [...code].map((path) => path.slice(cwd.length + 1))
}

it.each([[['--directory', 'tool']], [['--directory=tool']], [['-C', 'tool']], [['--from=tool']]])(
  'the code of uvx %j is the package in this folder',
  (option) => expect(codeOf(...option, 'run', '--root=data', 'data')).toEqual(['tool']),
)

it('an option with a value is not the value of the option before it', () => {
  expect(codeOf('run', '--with', '--root=data')).toEqual([])
})
