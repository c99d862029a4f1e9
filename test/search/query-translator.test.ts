import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { includedTranslator, ownPackage } from '../../src/app/package-info.ts'
import { foldAccents } from '../../src/search/tokenize.ts'

const folder = join(ownPackage().root, 'models/dictionaries')

describe('a query in another language', () => {
  const translate = includedTranslator()

  it.each([
    ['lösche die Datei notizen.txt', 'delete file'],
    ['supprime ce fichier', 'delete file'],
    ['¿qué archivos hay en la carpeta?', 'file folder'],
    ['mostra os meus arquivos', 'show my file'],
    ['mostrami le mie email', 'show my email'],
    ['toon mijn bestanden', 'show my file'],
    ['usuń stare pliki', 'delete old file'],
    ['yarın hava nasıl olacak', 'tomorrow weather'],
    ['покажи открытые задачи', 'show open task'],
    ['احذف هذا الملف', 'delete file'],
    ['删除这个文件', 'delete file'],
    ['ファイルを削除して', 'file delete'],
    ['파일을 삭제해 줘', 'file delete'],
  ])('is translated word by word: %s', (query, english) => {
    const translated = translate(query)?.split(' ') ?? []
    for (const word of english.split(' ')) expect(translated).toContain(word)
  })

  it('keeps names, numbers, files and English words', () => {
    expect(translate('verschiebe das Issue SHOP-210 nach Kiel')).toBe('move issue shop 210 after kiel')
    expect(translate('renombra notas.txt a ideas.txt')).toBe('rename notas.txt ideas.txt')
  })

  it('splits compounds, and cuts endings', () => {
    expect(translate('zeig mir die Telefonrechnung')).toBe('show phone invoice')
    expect(translate('открой файлами')).toBe('open file')
  })
})

describe('one word in Latin letters', () => {
  it('is not translated, so that it finds the same with and without accents', () => {
    expect(includedTranslator()('données')).toBeUndefined()
  })
})

describe('a hostile query', () => {
  it('of one endless word is answered at once', () => {
    expect(includedTranslator()(`zeig mir ${'dateiordner'.repeat(100_000)}`)).toMatch(/^show dateiordner/)
  })
})

describe('a query in English', () => {
  it.each([
    'show me the open pull requests',
    'which albums did Björk release',
    'what do people say in the reviews of Café Luna on the map',
    'open https://shop.example/returns and see how long I have got',
  ])('is not translated: %s', (query) => {
    expect(includedTranslator()(query)).toBeUndefined()
  })
})

describe('the included dictionaries', () => {
  it('have one tab in each line, and each word once', () => {
    const wrong: string[] = []
    for (const file of readdirSync(folder)) {
      const known = new Set<string>()
      for (const line of readFileSync(join(folder, file), 'utf8').trimEnd().split('\n')) {
        const [, forms, ...more] = line.split('\t')
        if (!forms || more.length > 0) wrong.push(`${file}: ${line}`)
        for (const form of (forms ?? '').split('|')) {
          const key = foldAccents(form).toLowerCase()
          if (key.trim() === '' || known.has(key)) wrong.push(`${file}: ${form}`)
          known.add(key)
        }
      }
    }
    expect(wrong).toEqual([])
  })
})
