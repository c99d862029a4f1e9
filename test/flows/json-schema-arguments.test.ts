import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { serve } from '../openapi/mock.ts'

const size = { type: 'integer', minimum: 2, maximum: 100 }
const kind = { type: 'string', enum: ['fair', 'loaded'] }

const MODULE = `export default {
  name: 'dice',
  description: 'Rolls dice.',
  tools: {
    roll: {
      description: 'Rolls a die with some sides.',
      effect: 'read',
      input: { type: 'object', required: ['sides'], properties: { sides: ${JSON.stringify(size)}, kind: ${JSON.stringify(kind)} } },
      run: ({ sides }) => ({ sides }),
    },
  },
}
`
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Dice', version: '1' },
  paths: {
    '/roll': {
      get: {
        operationId: 'roll',
        parameters: [
          { name: 'sides', in: 'query', required: true, schema: size },
          { name: 'kind', in: 'query', schema: kind },
        ],
        responses: {},
      },
    },
  },
}

it('invalid arguments for tools with a JSON Schema get the same sentences in modules and APIs', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'dice.js'), MODULE)
  writeFileSync(join(dir, 'dice.json'), JSON.stringify(DOCUMENT))
  const server = await serve((_request, response) => response.end('{}'))
  onTestFinished(() => server.close())
  const openapi = { online: { document: 'dice.json', baseUrl: server.url } }
  const { app } = await startApp({ exposure: { mode: 'discovery' }, openapi }, dir)
  await app.settled(20_000)
  const client = await connectTo(app)
  for (const name of ['dice.roll', 'api_online.roll']) {
    const errorOf = async (params: object): Promise<string> => {
      const result = await client.callTool({ name: 'execute_tool', arguments: { name, params } })
      return (result.structuredContent as { error: { message: string } }).error.message
    }
    expect(await errorOf({})).toBe(`Invalid params for ${name}: sides: is missing; it must be a whole number`)
    expect(await errorOf({ sides: 'x' })).toBe(
      `Invalid params for ${name}: sides: must be a whole number, not a string`,
    )
    expect(await errorOf({ sides: 1, kind: 'laoded' })).toBe(
      `Invalid params for ${name}: sides: must be at least 2; kind: must be "fair" or "loaded"; did you mean "loaded"?`,
    )
  }
  expect(server.seen).toEqual([])
  await client.close()
})
