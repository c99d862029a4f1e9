import { describe, expect, it } from 'vitest'
import { isFaint, stemOf, wordsOf } from '../../src/search/tokenize.ts'

const texts = (text: string): string[] => wordsOf(text).map((word) => word.text)

describe('wordsOf', () => {
  it('splits snake_case, kebab-case and dots into words', () => {
    expect(texts('list_issues delete-file github.get')).toEqual(['list', 'issues', 'delete', 'file', 'github', 'get'])
  })

  it('keeps a camelCase or digit-joined word and lists its parts', () => {
    expect(wordsOf('listIssues HTTPServer base64 s3')).toEqual([
      { text: 'listissues', parts: ['list', 'issues'] },
      { text: 'httpserver', parts: ['http', 'server'] },
      { text: 'base64', parts: ['base', '64'] },
      { text: 's3', parts: [] },
    ])
  })

  it('lowers case, removes accents and folds wide and joined letters', () => {
    expect(texts('Données ÉCRIRE Straße cœur ＦＩＬＥ')).toEqual(['donnees', 'ecrire', 'strasse', 'coeur', 'file'])
  })

  it('drops single letters, but not single Han characters', () => {
    expect(texts('a b 本 c')).toEqual(['本'])
  })

  it('splits Han, kana, Hangul and Thai into overlapping pairs', () => {
    expect(texts('读取文件')).toEqual(['读取', '取文', '文件'])
    expect(texts('ファイルを')).toEqual(['ファ', 'ァイ', 'イル', 'ルを'])
    expect(texts('파일을')).toEqual(['파일', '일을'])
    expect(texts('PDF文件')).toEqual(['pdf', '文件'])
  })

  it('keeps Cyrillic, Greek and Devanagari words', () => {
    expect(texts('Прочитать файл αρχείο फ़ाइल')).toEqual(
      ['прочитать', 'фаил', 'αρχειο', 'फ़ाइल'].map((w) => w.normalize('NFC')),
    )
  })

  it('reads Arabic and Hebrew with or without vowel signs', () => {
    expect(texts('اِقْرَأ الملــف')).toEqual(texts('اقرا الملف'))
    expect(texts('קְרָא')).toEqual(['קרא'])
  })

  it('handles the Turkish letters i', () => {
    expect(texts('SİLİNDİ ısı')).toEqual(['silindi', 'isi'])
  })

  it('drops emoji, control characters and lone surrogates', () => {
    expect(texts('🦜file🦜 \u0000read\u0007 \ud800list\udc00')).toEqual(['file', 'read', 'list'])
  })

  it('ignores words longer than any real one', () => {
    expect(texts(`${'x'.repeat(500)} file`)).toEqual(['file'])
  })
})

describe('isFaint', () => {
  it('contains stems of question words, and no action or thing', () => {
    for (const word of ['help', 'information', 'trying']) expect(isFaint(stemOf(word)), word).toBe(true)
    for (const word of ['list', 'delete', 'file', 'search']) expect(isFaint(stemOf(word)), word).toBe(false)
  })
})

describe('stemOf', () => {
  it('keeps a short word in -er as its own stem', () => {
    expect(stemOf('server')).not.toBe(stemOf('serve'))
    expect(stemOf('docker')).not.toBe(stemOf('dock'))
  })

  it.each([
    ['files', 'file'],
    ['repositories', 'repository'],
    ['searches', 'search'],
    ['listing', 'list'],
    ['running', 'run'],
    ['created', 'create'],
    ['creation', 'create'],
    ['generation', 'generate'],
    ['generator', 'generate'],
    ['deployments', 'deploy'],
    ['supprimer', 'supprime'],
    ['chercher', 'cherche'],
    ['fichiers', 'fichier'],
  ])('gives %s and %s the same stem', (inflected, plain) => {
    expect(stemOf(inflected)).toBe(stemOf(plain))
  })

  it.each(['status', 'address', 'this', 'news', '文件'])(
    'does not treat %s as an inflection of a shorter word',
    (word) => {
      expect(stemOf(word).length).toBeGreaterThanOrEqual(word.length - 1)
    },
  )
})
