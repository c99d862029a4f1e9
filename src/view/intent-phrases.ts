/**
 * Words with which a message asks for something. English, German, French, Spanish, Portuguese, Italian, Dutch and a
 * little more.
 */
export interface Wording {
  /** One of these is enough. `*` at the end matches any ending. */
  readonly asks: string
  /** One of these near a general verb, or near one of `verbs`, is enough. */
  readonly things?: string
  readonly verbs?: string
}

/** Verbs for any thing. */
export const VERBS =
  'make, create, generate, give, get, send, show, want, need, design, produce, render, mach*, erstell*, erzeug*, generier*, zeig*, schick*, gib, mochte, brauch*, fais, cree*, genere*, donne*, envoie*, montre*, veux, voudrais, haz, hazme, crea*, genera*, dame, envia*, quiero, faz, faca, cria*, gera*, manda*, quero, fammi, fai, dammi, vorrei, voglio, maak, geef, stuur*, toon, wil'

/** By intent. For other intents, their name and the phrases of the profile count. */
export const INTENTS: Readonly<Record<string, Wording>> = {
  image: {
    asks: 'draw, sketch, paint, illustrate, doodle, picture of, photo of, image of, portrait of, inpaint*, outpaint*, zeichne*, mal mir, male mir, skizzier*, bild von, dessine*, peins, image de, dibuja*, pinta, imagen de, desenh*, imagem de, disegn*, dipingi, immagine di, teken*, schilder, нарисуй, 描いて, 絵を, イラスト, 画一, 画个, 画张, 畫, 生成图片, 그려',
    things:
      'image*, picture*, pic, pics, photo*, illustration*, artwork, logo, icon, avatar, wallpaper, poster, portrait, meme, selfie, bild*, foto*, zeichnung, dessin*, imagen*, dibujo*, ilustra*, imagem, imagens, desenho, immagin*, disegno, afbeelding*, plaatje*, картинку',
    verbs: 'edit, change, modify, bearbeit*, ander*, modifi*, edita*, cambia*',
  },
  video: {
    asks: 'animate, video of, clip of, animier*, 動画を, 视频',
    things: 'video*, clip, clips, animation*, gif, film, animacion, animacao, animazione',
  },
  voice: {
    asks: 'say it aloud, say this aloud, read aloud, read it to me, read this out, out loud, speak to me, voice message, voice note, text to speech, tts, vorlesen, lies vor, lies mir, sprachnachricht, a voix haute, message vocal, en voz alta, mensaje de voz, nota de voz, mensagem de voz, messaggio vocale, ad alta voce, spraakbericht, voorlezen, голосовое, 読み上げて, 音声で, 朗读, 语音, 읽어줘',
    things: 'voice, audio, speech, stimme, voix, voz, voce, stem',
    verbs:
      'say, speak, record, read, answer, reply, sprich, antworte, parle, reponds, habla, responde, fala, parla, rispondi, spreek',
  },
  sound: {
    asks: 'sing, sound of, sound effect, compose a song, komponier*, chante*, canta, cantami, cantame, 歌って, 唱',
    things:
      'song, music, melody, tune, beat, jingle, sound, lied, musik, chanson, musique, cancion, musica, canzone, liedje',
  },
  sticker: {
    asks: 'sticker*, aufkleber, autocollant*, pegatina*, figurinha*, adesivo, adesivi, emote, стикер, スタンプ, 贴纸, 表情包, 스티커',
    things: 'emoji, reaction',
  },
  memory: {
    asks: 'remember, memorize, memorise, keep in mind, do not forget, don t forget, forget that, forget about, forget what, make a note, note that, note down, save this, what do you know about me, recall, merk dir, merke dir, vergiss, notier*, erinner*, souviens*, retiens, rappelle*, oublie*, note que, recuerda*, acuerdate, olvida*, anota*, lembr*, esquec*, ricord*, dimentica*, annota*, onthou*, vergeet, запомни, 覚えて, 忘れて, 记住, 忘记, 기억해',
    things:
      'note, notes, memory, memories, reminder, notiz*, erinnerung*, souvenir*, recuerdo*, nota, memoria, notitie',
    verbs: 'save, store, keep, add, delete, speicher*, enregistre*, guarda*, salva*, bewaar',
  },
  reminder: {
    asks: 'remind me, wake me, in an hour tell me, set a timer, set an alarm, erinnere mich, weck mich, rappelle moi, reveille moi, recuerdame, avisame, lembre me, me lembre, ricordami, herinner me, напомни, リマインド, 提醒我, 알려줘',
    things:
      'reminder*, timer, alarm, wecker, erinnerung, minuteur, rappel, alarma, recordatorio, lembrete, promemoria, sveglia',
    verbs: 'set, add, stell*, mets, pon, poner, imposta, zet',
  },
  moderation: {
    asks: 'block him, block her, block them, block this user, block user, unblock, mute, unmute, ban, unban, kick this user, ignore this user, blockier*, sperre, bloque*, bloquea*, bloqueia*, blocca, blokkeer, заблокируй, ブロックして, 屏蔽, 拉黑, 차단',
  },
}

/** Short messages that ask for the same again. */
export const FOLLOW_UPS =
  'again, another, another one, one more, once more, more like, same but, same again, try again, redo, retry, do it over, next one, noch eins, noch einmal, noch mal, nochmal, nochmals, ein weiteres, ein anderes, encore, encore une, encore un, refais*, un autre, une autre, otra vez, otro, otra, de nuevo, repite*, uno mas, una mas, de novo, outra vez, mais um, mais uma, outro, ancora, di nuovo, un altro, un altra, rifallo, nog een, nog eens, opnieuw, еще раз, もう一度, もう一つ, もう一枚, 再来, 再一, 다시, 하나 더'

/** Maximum number of words of a message that asks only for the same again. */
export const FOLLOW_UP_WORDS = 12
