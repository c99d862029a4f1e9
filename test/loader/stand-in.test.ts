import { expect, it } from 'vitest'
import { z } from 'zod'
import { localCaller, noServices } from '../../src/core/context.ts'
import { silentLog } from '../../src/core/log.ts'
import type { StartContext, ToolModule } from '../../src/core/module.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { toSchema } from '../../src/core/schema.ts'
import { type PreparedModule, standIn } from '../../src/loader/stand-in.ts'

const Config = z.object({ on: z.boolean().default(false), folder: z.string().default('{{state_dir}}') })
const Input = z.object({ word: z.string() })

const KNOWN: PreparedModule = {
  says: { name: 'lamp', description: 'A lamp.' },
  config: { at: [0, 1], empty: { on: false, folder: '{{state_dir}}' } },
  has: ['enabled', 'start', 'stop'],
  enabled: [{ services: {}, answer: 'set on to true' }],
  tools: {
    light: {
      says: { description: 'Gives light.', effect: 'write', context: true },
      has: ['available', 'run'],
      input: { at: [1, 2] },
      available: [
        { services: { servers: 'empty' }, answer: 'there are no servers' },
        { services: { servers: 'filled' }, answer: true },
      ],
    },
  },
}

const UNTOUCHED = { on: false, folder: '/home/me/state' }

/** A module that notes what becomes of it. */
function lamp(start?: () => Promise<void>) {
  const log: string[] = []
  const module: ToolModule<z.infer<typeof Config>> = {
    name: 'lamp',
    description: 'A lamp.',
    config: Config,
    enabled: ({ config }) => config.on || 'said by the code',
    async start() {
      log.push('starts')
      await start?.()
      log.push('has started')
    },
    stop: () => void log.push('stops'),
    tools: {
      light: {
        description: 'Gives light.',
        effect: 'write',
        input: Input,
        available: () => 'said by the code',
        run: ({ word }: z.infer<typeof Input>, { config }) => `${word} ${(config as { folder: string }).folder}`,
      },
    },
  }
  const stand = standIn(
    KNOWN,
    ([from]) => ({ type: 'object', title: `schema ${from}` }),
    () => {
      log.push('is read')
      return module as ToolModule
    },
  )
  const light = stand.tools['light'] as NonNullable<(typeof stand.tools)[string]>
  const startIt = (config: unknown, signal = new AbortController().signal) => {
    const ctx: StartContext<unknown> = {
      config,
      log: silentLog,
      signal,
      services: noServices,
      changed: () => undefined,
    }
    return stand.start?.(ctx)
  }
  const view = (config: unknown, servers: readonly string[] | null = null) => ({
    config,
    caller: localCaller,
    profile: defaultProfile,
    services: { ...noServices, servers: servers && ({ list: () => servers } as never) },
    nameOf: () => undefined,
  })
  const call = (config: unknown) => light.run({ word: 'red' }, { config } as never)
  return { log, stand, light, start: startIt, view, call }
}

it('tells what was prepared without the code, and starts nothing, while no option is set', async () => {
  const { log, stand, light, start, view } = lamp()
  await start(UNTOUCHED)
  expect(stand).toMatchObject({ name: 'lamp', description: 'A lamp.' })
  expect(toSchema(light.input).json).toEqual({ type: 'object', title: 'schema 1' })
  expect(toSchema(stand.config).parse({})).toEqual({ ok: true, value: { on: false, folder: '{{state_dir}}' } })
  expect(stand.enabled?.({ config: UNTOUCHED, profile: defaultProfile })).toBe('set on to true')
  expect(light.available?.(view(UNTOUCHED, []))).toBe('there are no servers')
  expect(light.available?.(view(UNTOUCHED, ['one']))).toBe(true)
  await stand.stop?.()
  expect(log).toEqual([])
})

it('is read for a check where services are in no way that was prepared', () => {
  const { log, light, view } = lamp()
  expect(light.available?.(view(UNTOUCHED, null))).toBe('said by the code')
  expect(log).toEqual(['is read'])
})

it('is read and started at once where an option is set', async () => {
  const { log, stand, start, call } = lamp()
  const config = { ...UNTOUCHED, on: true }
  await start(config)
  expect(log).toEqual(['is read', 'starts', 'has started'])
  expect(stand.enabled?.({ config, profile: defaultProfile })).toBe(true)
  expect(await call(config)).toBe('red /home/me/state')
  await stand.stop?.()
  expect(log).toEqual(['is read', 'starts', 'has started', 'stops'])
})

it('is started before its first call, where it was read late', async () => {
  let begin: () => void = () => undefined
  const { log, start, call } = lamp(() => new Promise((resolve) => (begin = resolve)))
  await start(UNTOUCHED)
  const answer = call(UNTOUCHED)
  expect(log).toEqual(['is read', 'starts'])
  begin()
  expect(await answer).toBe('red /home/me/state')
  expect(log).toEqual(['is read', 'starts', 'has started'])
})

it('answers checks itself once it was read, since what was called may decide', async () => {
  const { light, stand, start, view, call } = lamp()
  await start(UNTOUCHED)
  await call(UNTOUCHED)
  expect(light.available?.(view(UNTOUCHED, []))).toBe('said by the code')
  expect(stand.enabled?.({ config: UNTOUCHED, profile: defaultProfile })).toBe('said by the code')
})

it('is not started by a call of an instance that was stopped', async () => {
  const { log, start, call } = lamp()
  const abort = new AbortController()
  await start(UNTOUCHED, abort.signal)
  abort.abort()
  await call(UNTOUCHED)
  expect(log).toEqual(['is read'])
})

it('a profile that sets an option has the module read, and started as the others have it', async () => {
  const { log, stand, start } = lamp()
  await start(UNTOUCHED)
  expect(stand.enabled?.({ config: { ...UNTOUCHED, on: true }, profile: defaultProfile })).toBe(true)
  expect(log.slice(0, 2)).toEqual(['is read', 'starts'])
})

it('checks what is given to it by the code', () => {
  const { log, light } = lamp()
  expect(toSchema(light.input).parse({ word: 3 })).toMatchObject({ ok: false, issues: [{ path: 'word' }] })
  expect(log).toEqual(['is read'])
})
