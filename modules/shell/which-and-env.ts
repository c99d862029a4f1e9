import { type ToolDef, z } from 'pegboard'
import { allowedNames } from './allow.ts'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find-program.ts'
import { stateOf } from './state.ts'

const Which = z.object({ name: z.string().min(1).max(200).describe('Program name.') })

export const which: ToolDef<Settings, typeof Which> = {
  title: 'Find a program',
  description: 'Find where a program is, and list the commands that run can start. Not for files (filesystem.find).',
  aliases: ['where is', 'program path', 'où est', 'dónde está'],
  tags: ['shell', 'program'],
  input: Which,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { name: 'git' } }],
  async run({ name }, ctx) {
    const path = await findProgram(name, stateOf(ctx).processes, rootsOf(ctx.config))
    return { name, path: path ?? null, allowed_commands: allowedNames(ctx.config) }
  },
}

const Env = z.object({
  name: z.string().max(200).optional().describe('Name of one variable.'),
  prefix: z.string().max(200).optional().describe('Prefix of names.'),
})

export const env: ToolDef<Settings, typeof Env> = {
  title: 'Show the environment',
  description:
    "List the environment variables of commands. Values of credentials are replaced. Pegboard's other variables are not passed on.",
  aliases: ['environment variables', 'printenv', "variables d'environnement", 'Umgebungsvariablen'],
  tags: ['shell', 'environment'],
  input: Env,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { prefix: 'LC_' } }],
  run({ name, prefix = '' }, ctx) {
    const { env: configuredEnv, env_passthrough } = ctx.config
    const allVariables = { ...stateOf(ctx).processes.environment(env_passthrough), ...configuredEnv }
    const matching = Object.entries(allVariables).filter(
      ([key]) => (name === undefined || key === name) && key.startsWith(prefix),
    )
    return { variables: Object.fromEntries(matching.sort(([a], [b]) => (a < b ? -1 : 1))) }
  },
}
