import { expect, it } from 'vitest'
import { z } from 'zod'
import { defineModule, type ToolDef } from '../../src/core/module.ts'

// `tsc` reads this file: a line below `@ts-expect-error` that compiles fails the build.
it('a run function that returns something other than its output schema does not compile', () => {
  const made = defineModule({
    name: 'dice',
    description: 'Throws dice.',
    config: z.object({ sides: z.int() }),
    tools: {
      throw: {
        description: 'Throws some dice and adds them up.',
        effect: 'read',
        input: z.object({ count: z.int() }),
        output: z.object({ total: z.int(), each: z.array(z.int()), note: z.string().optional() }),
        run: ({ count }, { config }) => {
          const sides: number = config.sides
          const each: readonly number[] = Array.from({ length: count }, () => sides)
          return { total: count * sides, each }
        },
      },
      later: {
        description: 'Throws one die, in a while.',
        effect: 'read',
        output: z.object({ total: z.int() }),
        run: async () => ({ total: 4 }),
      },
      wrong: {
        description: 'Throws one die and says it wrongly.',
        effect: 'read',
        output: z.object({ total: z.int() }),
        // @ts-expect-error total is a number
        run: () => ({ total: 'four' }),
      },
      missing: {
        description: 'Throws one die and forgets the total.',
        effect: 'read',
        output: z.object({ total: z.int() }),
        // @ts-expect-error total is missing
        run: async () => ({ sum: 4 }),
      },
      untold: {
        description: 'Throws one die and promises nothing.',
        effect: 'read',
        input: z.object({ count: z.int() }),
        run: ({ count }) => [count.toFixed()],
      },
      raw: {
        description: 'Throws one die, with plain schemas.',
        effect: 'read',
        input: { type: 'object', properties: { count: { type: 'integer' } } },
        output: { type: 'object', properties: { total: { type: 'integer' } } },
        run: ({ count }) => ({ total: count }),
      },
    },
  })
  const Total = z.object({ total: z.int() })
  const alone: ToolDef<unknown, typeof Total, typeof Total> = {
    description: 'Says what it was told.',
    effect: 'read',
    input: Total,
    output: Total,
    run: ({ total }) => ({ total }),
  }
  expect([...Object.keys(made.tools), typeof alone.run]).toHaveLength(7)
})
