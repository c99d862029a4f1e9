import { expect, it } from 'vitest'

const script = new URL('../../scripts/exports.mjs', import.meta.url).href
const { writeExports } = (await import(script)) as {
  writeExports: (modules: readonly { readonly name: string }[], onByDefault: readonly string[]) => Promise<void>
}

it('fails the build if a name among the modules that are on by default is no module', async () => {
  await expect(writeExports([], ['nothing'])).rejects.toThrow('"onByDefault" has names of no module: nothing')
})
