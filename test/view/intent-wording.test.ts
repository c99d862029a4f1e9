import { describe, expect, it } from 'vitest'
import { INTENTS } from '../../src/view/intent-phrases.ts'
import { asksFor, isFollowUp, prepareMessage } from '../../src/view/intent-wording.ts'
import { costMs } from '../measure-growth.ts'

const intentsOf = (message: string): string[] =>
  Object.keys(INTENTS).filter((intent) => asksFor(prepareMessage(message), intent))

describe('a message', () => {
  it.each([
    ['Draw a cat', ['image']],
    ['Can you make me a logo with a fox?', ['image']],
    ['Zeichne mir eine Katze', ['image']],
    ['Kannst du ein Bild machen?', ['image']],
    ['Dessine-moi un mouton', ['image']],
    ['Génère une photo du port', ['image']],
    ['dibújame un gato', ['image']],
    ['faz uma imagem de um gato', ['image']],
    ['猫の絵を描いて', ['image']],
    ['画一只猫', ['image']],
    ['Reply with a voice message', ['voice']],
    ['Lies vor, was da steht', ['voice']],
    ['send a sticker', ['sticker']],
    ['Remember that I like tea', ['memory']],
    ['Merk dir das', ['memory']],
    ['remind me at five', ['reminder']],
    ['please block this user', ['moderation']],
    ["What's the weather?", []],
    ['The drawer is broken', []],
    ['How do I read a file?', []],
    ['', []],
  ])('"%s" asks for %j', (message, intents) => expect(intentsOf(message)).toEqual(intents))

  it.each([
    ['again', true],
    ['One more, please!', true],
    ['noch eins', true],
    ['もう一枚', true],
    ['against all odds', false],
    ['I have told you again and again that this is a long story about nothing in particular', false],
  ])('"%s" asks for the same again: %s', (message, expected) =>
    expect(isFollowUp(prepareMessage(message))).toBe(expected),
  )

  it('is parsed in linear time', async () => {
    const ms = await costMs(() => {
      for (const hostile of ['a'.repeat(1e6), 'make '.repeat(2e5), '/img'.repeat(2e5), '\u0301'.repeat(1e6)])
        asksFor(prepareMessage(hostile), 'image', ['a'.repeat(200), '/imgx', 'make make make b'])
    })
    expect(ms).toBeLessThan(500)
  })
})
