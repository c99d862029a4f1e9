import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createDocuments, keyOf } from '../../src/state/document-store.ts'
import { temporaryFolder } from '../app.ts'

const isList = (value: unknown): boolean => Array.isArray(value)

function documentsIn(dir: string) {
  const broken: string[] = []
  const documents = createDocuments<readonly number[]>({
    dir,
    isValue: isList,
    onBroken: (file, aside) => broken.push(file, aside),
  })
  const add = (key: string, n: number) =>
    documents.update(key, (before = []) => ({ value: [...before, n], result: before.length + 1 }))
  return { documents, broken, add }
}

describe('durable documents', () => {
  it('survive a restart, private to their owner', async () => {
    const dir = temporaryFolder()
    expect(await documentsIn(dir).add('a', 1)).toBe(1)
    const { documents } = documentsIn(dir)
    expect(await documents.read('a')).toEqual([1])
    expect(await documents.read('b')).toBeUndefined()
    expect(await documents.keys()).toEqual(['a'])
    expect(readdirSync(dir)).toEqual(['a.json'])
  })

  it('lose no concurrent change, by two processes either', async () => {
    const dir = temporaryFolder()
    const [one, other] = [documentsIn(dir), documentsIn(dir)]
    await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? one : other).add('a', n)))
    expect([...((await one.documents.read('a')) ?? [])].sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, n) => n),
    )
    expect(await other.documents.read('a')).toEqual(await one.documents.read('a'))
  })

  it('are renamed when damaged, and reported', async () => {
    const dir = temporaryFolder()
    for (const text of ['[1, 2', '{"not": "a list"}']) {
      writeFileSync(join(dir, 'a.json'), text)
      const { documents, broken, add } = documentsIn(dir)
      expect(await documents.read('a')).toBeUndefined()
      const [file, aside] = broken
      expect(file).toBe(join(dir, 'a.json'))
      expect(readFileSync(aside as string, 'utf8')).toBe(text)
      expect(await add('a', 7)).toBe(1)
      expect(readFileSync(aside as string, 'utf8')).toBe(text)
    }
  })

  it('are limited in number: the least recently used one makes room', async () => {
    const documents = createDocuments<readonly number[]>({
      dir: temporaryFolder(),
      isValue: isList,
      onBroken: () => undefined,
      maxKeys: 2,
    })
    for (const key of ['a', 'b', 'a', 'c']) {
      await documents.update(key, () => ({ value: [1], result: null }))
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect((await documents.keys()).sort()).toEqual(['a', 'c'])
    expect(await documents.read('b')).toBeUndefined()
  })

  it('are unchanged if a change throws', async () => {
    const { documents, add } = documentsIn(temporaryFolder())
    await add('a', 1)
    await expect(
      documents.update('a', () => {
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    expect(await documents.read('a')).toEqual([1])
    expect(await add('a', 2)).toBe(2)
  })

  it('report that they are unusable, without a path', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'file'), '')
    const { add } = documentsIn(join(dir, 'file'))
    await expect(add('a', 1)).rejects.toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    await expect(add('a', 1)).rejects.not.toThrow(dir)
  })

  it('have keys for any text', () => {
    expect(keyOf('a', 'b')).toMatch(/^[0-9a-f]{32}$/)
    expect(keyOf('a', 'b')).toBe(keyOf('a', 'b'))
    expect(keyOf('ab')).not.toBe(keyOf('a', 'b'))
  })
})
