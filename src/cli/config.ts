import { resolve } from 'node:path'
import { type Args, readOption } from './args.ts'
import { findConfig, userConfigFile } from './find-config.ts'
import { type Io, UsageError, writeJson } from './io.ts'
import { machineOf } from './machine-of.ts'

const REASONS = {
  option: '--config names it',
  variable: 'the variable PEGBOARD_CONFIG names it',
  project: 'it is the nearest mcp.config.json, and you confirmed it',
  user: 'it is the configuration of this user',
} as const

/** `pegboard config path`: the file that other commands use here. The reason goes to stderr, so scripts get the path. */
export async function run(args: Args, io: Io): Promise<number> {
  const [subject = 'path'] = args.positionals
  if (subject !== 'path') throw new UsageError('config takes path')
  const { file, from, ignored } = await findConfig(readOption(args, 'config'), io)
  const userFile = userConfigFile(machineOf(io))
  if (args.values['json'] === true)
    writeJson(io, {
      path: file === undefined ? null : resolve(io.cwd, file),
      from: from ?? null,
      ignored: ignored ?? null,
      own: userFile,
    })
  else if (file !== undefined) {
    io.stdout(`${resolve(io.cwd, file)}\n`)
    if (from !== undefined) io.stderr(`pegboard: ${REASONS[from]}\n`)
  } else io.stderr(`pegboard: no configuration file is used here; to create ${userFile}, run pegboard init\n`)
  if (ignored !== undefined && args.values['json'] !== true)
    io.stderr(`pegboard: ${ignored} is ignored, because you have not confirmed it\n`)
  return file === undefined ? 1 : 0
}
