import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import hello from '../../modules/hello.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { createViews } from '../../src/view/views.ts'
import { keepsTheContract } from '../contract/module.ts'
import { bench } from '../loader/setup.ts'
import { sameRules } from '../view-rules.ts'

keepsTheContract(hello)

const bundled = {
  bundledDirs: [fileURLToPath(new URL('../../modules', import.meta.url))],
  autoload: false,
  settings: { hello: {} },
}

describe('hello', () => {
  it('is the only category if it is the only declared module [DIG-20]', async () => {
    const found = await bench({}, bundled)
    await found.loader.start()
    expect([...found.catalog.snapshot().owners.keys()]).toEqual(['hello'])
  })

  it('greets one person and several, in several languages, and counts', async () => {
    const found = await bench({}, bundled)
    expect((await found.loader.start()).loaded).toEqual(['hello'])
    const before = (await found.run('hello.status')) as { greeted: number }
    expect(await found.run('hello.say_hello')).toEqual({ message: 'Hello, world!' })
    expect(await found.run('hello.say_hello', { name: 'Ada' })).toEqual({ message: 'Hello, Ada!' })
    expect(await found.run('hello.say_hello', { name: 'Ada', language: 'FR' })).toEqual({ message: 'Bonjour, Ada!' })
    expect(await found.run('hello.greet_many', { names: ['Ada', 'Grace'] })).toEqual({
      messages: ['Hello, Ada!', 'Hello, Grace!'],
      count: 2,
    })
    expect(await found.run('hello.status')).toEqual({
      ok: true,
      uptime_seconds: expect.any(Number),
      greeted: before.greeted + 5,
    })
    await expect(found.run('hello.say_hello', { language: 'klingon' })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('answers to greet, in constraints and as hello__greet', async () => {
    const found = await bench({}, bundled)
    await found.loader.start()
    const policy = createPolicy({ constraints: { hello: { allowed_actions: ['greet'] } } })
    const view = createViews({ catalog: found.catalog, rulesOf: sameRules(policy), log: silentLog }).viewFor(
      localCaller,
    )
    expect(view.tools.map(({ tool }) => tool.name)).toEqual(['hello__greet'])
    expect(view.resolve('hello__greet').kind).toBe('found')
  })
})
