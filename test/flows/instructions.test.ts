import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemPrompt } from '../../src/agent/tools-prompt.ts'
import { localCaller } from '../../src/core/caller.ts'
import { instructionTexts } from '../../src/server/instructions.ts'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

/** A module with one tool. The text is the body of its `promptSection`, a function of `view`. */
const moduleWith = (name: string, section: string): string => `
export default {
  name: '${name}',
  description: 'A module called ${name}.',
  promptSection: (view) => { ${section} },
  tools: {
    look: { description: 'Looks around, and sees nothing.', effect: 'read', run: () => 'seen' },
    open: { description: 'Opens what set-up steps name.', effect: 'write', internal: true,
      input: { type: 'object', properties: { name: { type: 'string' } } }, run: ({ name }) => ({ name }) },
  },
}`

async function appWith(sections: Readonly<Record<string, string>>, settings: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, section] of Object.entries(sections))
    writeFileSync(join(dir, 'modules', `${name}.mjs`), moduleWith(name, section))
  return await startApp(settings, dir)
}
const says = (priority: number, text: string): string =>
  `return { priority: ${priority}, text: ${JSON.stringify(text)} }`
const times = (text: string, part: string): number => text.split(part).length - 1

describe("a module's prompt section", () => {
  it.each(['legacy', 'modern'] as const)('is in the instructions once, in order of priority (%s)', async (era) => {
    const { app } = await appWith(
      {
        a: says(1, 'Section of a.'),
        b: says(20, 'Section of b.'),
        c: says(5, 'Section of c.'),
        d: says(-1, 'Section of d.'),
      },
      { server: { instructions: 'Text of the operator.' } },
    )
    const client = await connectTo(app, era)
    const text = client.getInstructions() ?? ''
    expect(['a', 'b', 'c', 'd'].map((id) => times(text, `Section of ${id}.`))).toEqual([1, 1, 1, 1])
    const order = [
      'Section of d.',
      'Pegboard has',
      'Text of the operator.',
      'Section of a.',
      'Section of c.',
      'Section of b.',
    ]
    const places = order.map((part) => text.indexOf(part))
    expect(places).toEqual(places.toSorted((one, other) => one - other))
    expect(places[0]).toBe(0)
  })

  it("is in the system prompt once, before the user's instructions [DIG-40]", async () => {
    const { app } = await appWith(
      { a: 'return { priority: 5, text: "database " + view.setup[0].value.name + " connected" }' },
      {
        modules: { a: { setup: [{ action: 'open', params: { name: 'default' } }] } },
      },
    )
    for (const mode of ['native', 'text'] as const) {
      const prompt = systemPrompt({ ...instructionTexts(app.server, localCaller), mode, userPrompt: 'Do what I want.' })
      expect(times(prompt, 'database default connected'), mode).toBe(1)
      expect(prompt.endsWith('\n\ndatabase default connected\n\nDo what I want.'), mode).toBe(true)
    }
  })

  it('is made for the caller: it names no module and no tool that the caller does not see', async () => {
    const { app } = await appWith(
      {
        a: 'return { priority: 1, text: "Use " + view.nameOf("a.look") + ", or " + view.nameOf("b.look") }',
        b: says(1, 'Section of b.'),
      },
      { policy: { deny: ['b.*'] }, profiles: { narrow: { use: ['b'] }, wide: {} } },
    )
    const { sections } = app.server
    const texts = (profile: string) => sections({ ...localCaller, profile }).map(({ text }) => text)
    expect(texts('default')).toEqual(['Use a__look, or undefined'])
    expect(texts('wide')).toEqual(['Use a__look, or undefined'])
    expect(texts('narrow')).toEqual([])
    expect((await connectTo(app)).getInstructions()).not.toContain('Section of b')
  })

  it('can use what set-up steps produced', async () => {
    const { app } = await appWith(
      {
        a: 'return { priority: 1, text: view.setup.map(({ action, value }) => action + " " + value.name).join("; ") }',
      },
      {
        modules: {
          a: {
            setup: [
              { action: 'open', params: { name: 'default' } },
              { action: 'open', params: { name: 'archive' } },
            ],
          },
        },
      },
    )
    expect((await connectTo(app)).getInstructions()).toMatch(/\nopen default; open archive$/)
  })

  it('is dropped and logged once if it throws or is invalid, and the others stay', async () => {
    const { app, logged } = await appWith({
      a: 'throw new Error("broken section")',
      b: 'return "just text"',
      c: 'return undefined',
      d: says(1, 'Section of d.'),
    })
    for (const era of ['legacy', 'modern', 'legacy'] as const)
      expect((await connectTo(app, era)).getInstructions()).toMatch(/\nSection of d\.$/)
    const left = logged.filter((line) => line.includes('prompt section')).map((line) => JSON.parse(line))
    expect(left.map(({ module, error }) => [module, error])).toEqual([
      ['a', 'broken section'],
      ['b', 'promptSection returns { priority: a number, text: a string }, or nothing'],
    ])
  })

  // Vitest reports an unhandled rejection as an error.
  it('is dropped and logged if it is async, and its rejection is handled', async () => {
    const { app, logged } = await appWith({
      a: 'return Promise.reject(new Error("no backend"))',
      b: says(1, 'Section of b.'),
    })
    expect((await connectTo(app)).getInstructions()).toMatch(/\nSection of b\.$/)
    const errors = logged.filter((line) => line.includes('prompt section')).map((line) => JSON.parse(line).error)
    expect(errors).toEqual(['promptSection returned a promise, but it must be synchronous'])
  })

  it('is cut if the instructions get too long, last section first', async () => {
    const { app } = await appWith(
      {
        a: says(10, `High. ${'high '.repeat(100)}`),
        b: says(20, `Mid. ${'middle '.repeat(300)}`),
        c: says(30, 'Low.'),
      },
      { server: { instructions: 'Text of the operator.' }, clients: { small: { maxInstructions: 600 } } },
    )
    const text = (await connectTo(app)).getInstructions() ?? ''
    expect(text.length).toBeLessThanOrEqual(2_000)
    expect(text.length).toBeGreaterThan(1_900)
    expect(text).toContain('Text of the operator.\nHigh. high')
    expect(text).toMatch(/\nMid\. .*middle…$/)
    expect(text).not.toContain('Low.')
    const small = (await connectTo(app, 'legacy', {}, 'default', 'small')).getInstructions() ?? ''
    expect(small.length).toBeLessThanOrEqual(600)
    expect(small).toMatch(/high…$/)
  })
})
