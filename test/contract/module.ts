import type { ToolModule } from 'pegboard'
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { isModuleId } from '../../src/core/tool-names.ts'
import { adaptTool } from '../../src/loader/adapt-module-tool.ts'
import { toolsOfModule } from '../../src/loader/module-shapes.ts'

/** The contract of every bundled module. Called once per module, from its own test file. */
export function keepsTheContract(module: ToolModule): void {
  describe(`${module.name} meets the module contract`, () => {
    const tools = toolsOfModule(module).map((source) => ({
      ...source,
      tool: adaptTool(source, { module: module.name, config: {}, log: silentLog }),
    }))

    it('has a valid name and a description', () => {
      expect(isModuleId(module.name)).toBe(true)
      expect(module.description.length).toBeGreaterThanOrEqual(40)
      expect(tools.length).toBeGreaterThan(0)
    })

    it.each(tools.map(({ tool }) => [tool.id, tool] as const))(
      '%s has names that every client accepts',
      (_id, tool) => {
        expect(tool.id.slice(module.name.length + 1)).toMatch(/^[a-z][a-z0-9_]*$/)
        expect(tool.name).toMatch(/^[a-zA-Z0-9_-]{1,46}$/)
        expect(tool.title).toMatch(/^\p{Lu}.{2,39}$/u)
      },
    )

    it.each(tools.map(({ tool, def }) => [tool.id, tool, def] as const))(
      '%s describes its purpose for models and people',
      (_id, tool, def) => {
        expect(tool.description.length).toBeGreaterThanOrEqual(40)
        expect(tool.description.length).toBeLessThanOrEqual(600)
        expect(tool.description).toMatch(/[.!]$/)
        expect(['read', 'write', 'destructive']).toContain(def.effect)
        expect(tool.aliases.length).toBeGreaterThan(0)
        expect(new Set(tool.aliases.map((alias) => alias.toLowerCase())).size).toBe(tool.aliases.length)
        expect(tool.tags.length).toBeGreaterThan(0)
        expect(tool.sideEffects.length).toBeGreaterThan(0)
      },
    )

    it.each(tools.map(({ tool }) => [tool.id, tool] as const))(
      '%s has a schema that every client accepts',
      (_id, tool) => {
        const { json } = tool.input
        expect(json).toMatchObject({ type: 'object', additionalProperties: false })
        for (const key of ['anyOf', 'oneOf', 'allOf', '$ref', 'not', 'if']) expect(Object.keys(json)).not.toContain(key)
        for (const [name, property] of Object.entries(json['properties'] as Record<string, Record<string, unknown>>)) {
          expect(name).toMatch(/^[a-z][a-z0-9_]*$/)
          expect(property['description'], `${tool.id} ${name}`).toMatch(/\S{2}/)
        }
        if (tool.output) expect(tool.output).toMatchObject({ type: 'object' })
      },
    )

    it.each(tools.map(({ tool }) => [tool.id, tool] as const))('%s has examples that match its schema', (_id, tool) => {
      expect(tool.examples.length).toBeGreaterThan(0)
      for (const { input } of tool.examples)
        expect(tool.parse(input), JSON.stringify(input)).toMatchObject({ ok: true })
      expect(tool.parse({ ...tool.examples[0]?.input, no_such_parameter: 1 })).toMatchObject({ ok: false })
    })

    it('has no two tools with the same name', () => {
      const names = tools
        .flatMap(({ tool }) => [tool.id.slice(module.name.length + 1), ...tool.aliases])
        .map((name) => name.toLowerCase())
      expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
    })
  })
}
