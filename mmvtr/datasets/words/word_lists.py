"""Frequent English words of captions and cooking instructions, by what they can be in a sentence.

The tagger of :mod:`mmvtr.datasets.words.part_of_speech` decides by context among what a word can
be.  Chosen by hand from what is frequent in the training captions of EPIC, YouCook2 and MSR-VTT.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

DETERMINERS = frozenset(
    """a all an another any both each either every few her his its many more most my neither no
    other our several some such the their these this those what whatever which whose your""".split()
)

PREPOSITIONS = frozenset(
    """about above across against along among amongst apart around as aside at away back behind
    below beneath beside besides between beyond by down during except for from in inside into
    like near next of off on onto out outside over past per than through throughout till to
    together toward towards under underneath until unto up upon via with within without""".split()
)

CONJUNCTIONS = frozenset(
    """and or but then while when where once if because so that who whom before after until till
    although though whereas unless since nor plus how why whether""".split()
)

PRONOUNS = frozenset(
    """anyone anything everyone everything he here herself him himself i it itself me myself nobody
    nothing one one's ones others she somebody someone something them themselves there they us
    we you yourself""".split()
)

AUXILIARIES = frozenset(
    """is are was were be been being am isn't aren't wasn't weren't it's he's she's that's there's
    has have had do does did doesn't don't didn't will would could shall should may
    might must can't cannot won't wouldn't""".split()
)

#: Auxiliaries after which a form in -ing or -ed is a verb, whatever follows it.
BE = frozenset(
    "is are was were be been being am isn't aren't wasn't weren't it's he's she's get gets "
    'getting has have had having'.split()
)

ADVERBS = frozenset(
    """afterwards again ahead almost already also always anymore apart aside backward backwards
    crosswise deep diagonally downwards else even evenly eventually ever everywhere finally
    finely first forward further gently halfway indoors instead inward just lastly later
    lengthwise less maybe meanwhile more most much never not now often once only outdoors
    outward overnight perhaps please pre quite rather really roughly sideways slightly soon
    still straight thinly thoroughly together too twice upside upwards very well yet""".split()
)

NUMBERS = frozenset(
    """one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty
    fifty hundred thousand first second third fourth half quarter dozen couple""".split()
)

ADJECTIVES = frozenset(
    """able african alone american angry animated asian asleep back bad bald beautiful best better
    big bitter black blond blonde blue brief bright british brown busy certain chinese clean
    clear cold cool crazy crispy crunchy cute dark different digital dirty double dry early easy
    electric electronic empty english excess extra famous fancy fast female flat foreign free
    french fresh front full funny german golden good gray greasy great greek green grey halal
    happy hard heavy high hollow hot huge indian individual inner instant international italian
    japanese korean kosher large last late lean left leftover light little live local long loose
    loud low lower main male medical medium metallic mexican middle modern multiple musical
    narrow national new next nice non-stick nonstick official old open other outer own pink
    plain political popular pretty professional purple quick quiet raw ready real red remaining
    retro rich right ripe rough round russian sad safe salty same several shallow sharp short
    silver single slight slow small smooth soft solid sour spanish spicy square stainless sticky
    straight strange sun-dried sweet tall tender thai thick thin tight tiny translucent
    transparent triple upper various vegan vegetarian virgin warm wet white whole wide wooden
    worst yellow young""".split()
)

#: Base forms of verbs that are rarely anything else.
VERBS = frozenset(
    """add adjust allow apply arrange ask assemble attach be become begin blanch blend bounce bow
    breathe bring build bury buy caramelize carry carve catch celebrate cheer choose clap clear
    climb cling close collect combine come commentate compare compete complete compose compress
    concentrate connect consist continue count create crumble crumple debone decorate deflate
    defrost demonstrate depict describe deseed detach dig dilute disassemble discard discuss
    dislodge dissect dissolve distribute dive divide do drag dream drench dunk eat edit empty
    emulsify endorse enjoy ensure enter entertain escape examine explain explore expose extend
    extract fail fall feed feel fetch fiddle find finish fix flatten flex flick flirt fluff
    flush fly follow fuse gargle gather get giggle give go grab greet grind grow hang happen have
    hear hide hike hoover hop imitate immerse include inform infuse inject insert inspect
    install instruct interact introduce invert involve jog join juggle julienne keep knead kneel
    knit know launch lay lean learn leave let let's lets listen load loose loosen lose lower
    make marinate mention mimic mingle mock moisten narrate nibble nudge observe open operate
    organise organize own pay perform pick place poach poke pour praise pray predict preform
    preheat prepare pretend prod promote pronounce propose protect prove pull put raise react
    read realize reappear rearrange reattach receive recite recommend recreate recycle reduce refill
    refrigerate rehearse reheat relax release remain remind remove render reopen repeat replace
    reposition reseal reshape resist retrieve reveal reverse roam row saute sautee say scare
    scatter scold scream screw scrunch scrutinise see select sell send separate sharpen
    shave shift shoot shout shred shut sift simmer sing sip sit slam sleep smash smooth sneak
    sneeze soften solve speak spill split squidge squirt squish stare steady steal stumble
    submerge suffer suggest surround swallow sway swipe take teach tell tenderize thank thaw
    think thrust tickle tidy tighten tilt toggle transport trap tread tuck unbox unclip uncover
    undo unfold unfurl unhook unload unlock unpack unplug unroll unscrew unstick untie unwind
    unwrap unzip upload use utter wait wake wander want warm warn wear weep weigh welcome wet
    wiggle win wrestle wring write yawn yell zoom""".split()
)

#: Base forms of verbs that are at times nouns.
VERBS_AT_TIMES_NOUNS = frozenset(
    """attack bake beat bend bite blow boil break broil change chat check chop clean coat cook cool
    cover crack crawl crush cry curl cut dab dance dice die dip display drain draw dress dribble
    drink drive drizzle drop dry dump exercise fasten feature fight fill film flip float fold
    force freeze fry garnish glaze grate grease grill guide hammer haul heat help hit hold hug
    hunt interview judge jump kick kiss land lather laugh layer lead lie lift lock look marinade
    mash massage measure meet melt mince mix mount move mow need offer pack paint park peel pet
    photograph pinch play point polish pose post practice present press prick pulse punch puree
    push quote race reach record repair report rescue rest return review ride rinse rip roast
    roll rotate rub run sail salute scoop score scour scramble scrape scratch scrub seal sear
    search season serve set sew shake share shop show sign skate skewer ski skim slice slide
    slip smear smell smile snap soak sort spar spin splash spread sprinkle squash squeeze stack
    stand start stay steam stir stop store strain stretch strip struggle stuff surf swap sweep
    swim swing swirl switch tackle talk tap taste tear tease thread throw tie tip toast toss
    touch transfer travel trick trim trip try turn twist vacuum visit walk wash watch wave whip
    whisk whistle wipe wonder work worry wrap zip""".split()
)

#: Nouns that are at times base forms of verbs.
NOUNS_AT_TIMES_VERBS = frozenset(
    """act address advance air answer baste battle bottle bowl box brake bread brush butter button
    call can cap cart cast cause chain chair charge chill circle claim clamp clip color colour
    comb comment compost conduct contact control core correct crash cream crease cross
    crowd crumb cube cycle damage deal debate design discount dish dock dose double drill drip
    dust echo edge end estimate experience face fan file filter fire fish fit flame flash flavor
    flavour flour flow flower focus foil fork form frame function gesture grip ground group
    guard guess hand handle harvest head hook host hurt ice impact increase iron issue jab jam
    joke juice key kill knife knock knot label lace ladle leak lecture level lick light limit
    line link list love lunch mail map march mark mask match mate microwave milk mind mirror mop
    motion nail name note oil order outline package paddle pan part pass paste pat patrol pause
    pepper perfume phone pickle picture piece pile pin pitch plan plane plant plate plow plug
    pop portion position pound powder price print process produce program project prop pump
    purchase quarter question quiz rack rain rank rap rate reel remark replay request result
    ring risk rock rope ruffle rule rush salt sample sand sandwich scale scan scent screen seat
    sense sentence shade shadow shape shell shield ship shoe shot shoulder shovel shower sieve
    sight silence sink size skin skip slap slow smoke snack soap sound speed spell spice sponge
    spoon spot spray spring staff stage stain stamp state steer stem step stew stick stitch
    stock storm stream strike string stroke stroll study stunt style suit supply support surface
    surprise sweat table tag tape target test text tick time title top tour tow towel toy trace
    track trade trail train treat trouble trust tune type value video view voice volunteer vote
    wall waste water weight whiteboard wind wing wire wish wound wreck zest""".split()
)

#: Forms that the suffix rules do not lead back to their base form.
IRREGULAR_VERBS: dict[str, str] = dict(
    pair.split(':')
    for pair in """ate:eat beaten:beat became:become began:begin begun:begin bent:bend
    bitten:bite blew:blow blown:blow bought:buy broke:break broken:break brought:bring built:build
    burnt:burn came:come caught:catch chose:choose chosen:choose drank:drink drawn:draw drew:draw
    driven:drive drove:drive drunk:drink eaten:eat fallen:fall fed:feed fell:fall felt:feel
    flew:fly flown:fly fought:fight found:find froze:freeze frozen:freeze gave:give given:give
    gone:go got:get gotten:get grew:grow grown:grow heard:hear held:hold hidden:hide
    hung:hang kept:keep knew:know known:know laid:lay led:lead left:leave lit:light lost:lose
    lying:lie tying:tie dying:die made:make meant:mean met:meet paid:pay ran:run ridden:ride
    risen:rise rode:ride said:say sang:sing sat:sit saw:see seen:see sent:send
    shaken:shake shook:shake shot:shoot shown:show shrunk:shrink slept:sleep slid:slide
    sold:sell sought:seek spent:spend spilt:spill spoke:speak spoken:speak spun:spin stole:steal
    stood:stand stuck:stick sung:sing swam:swim swept:sweep taken:take taught:teach thought:think
    threw:throw thrown:throw told:tell took:take tore:tear torn:tear understood:understand
    undone:undo went:go woken:wake won:win wore:wear worn:wear wound:wind written:write wrote:write
    unwound:unwind done:do dug:dig spat:spit sewn:sew swung:swing""".split()
)

#: Verbs whose object may be another verb's form in -ing.
ASPECT_VERBS = frozenset(
    """begin come continue enjoy finish go keep like love practice practise resume spend start stop
    try""".split()
)

#: Forms in -ing that are nouns unless an auxiliary or a sentence start says otherwise.
ING_NOUNS = frozenset(
    """being bing bowling building casing ceiling clipping clothing coating darling drawing
    dressing duckling dumpling earring ending evening filling frosting garnishing herring icing
    king lettering lighting meeting morning offering packaging padding painting pickling ping
    pudding railing ring seasoning setting shortening sibling sling spring string stuffing
    sweetening swing thing topping viking wedding wing wrapping""".split()
)

#: Nouns that follow a form in -ing within one name, such as the board of a cutting board.
ING_HEADS = frozenset(
    """area bag bags basket bin block board boards bowl bowls car cars class competition cup cups
    dish dishes equipment fork game games glove gloves gun hook instructions jug kit line liquid
    machine machines mat oil pad pads pan pans paper pin pins pool pot powder product products
    rack ring rod room sauce scale scales school sheet sheets show soda sponge spoon spoons
    stick sticks stone suit table tape tin track tray trays utensil utensils video videos
    wine""".split()
)

#: Nouns that end like a form of a verb, an adverb, an adjective or a plural.
NOUNS = frozenset(
    """adhesive ally alternative anomaly archive asparagus assembly barrier belly boss broccoli
    bully bus butterfly cable cactus carrier chili chilli chive citrus courier couscous
    detective directive dish doily endive executive family forest gas glass grass guest harvest
    hummus hundred iris jeans jelly lens lily marble mess molasses motive native news octopus
    olive pants pebble perspective priest radish ravioli relative relish reply scissors series
    shorts soldier species supply table tally tennis tongs varnish vegetable video virus""".split()
)

#: Words after which a base form is a verb: let cool, stir fry, help make, continue wash.
BEFORE_BARE_VERBS = frozenset(
    "let let's lets help make stir watch see go come deep pan continue".split()
)

#: Plurals that the endings do not lead back to their singular, and words that look like plurals.
IRREGULAR_PLURALS: dict[str, str] = dict(
    pair.split(':')
    for pair in """people:person men:man women:woman children:child feet:foot teeth:tooth mice:mouse
    geese:goose leaves:leaf knives:knife loaves:loaf halves:half shelves:shelf wolves:wolf
    wives:wife lives:life calves:calf scarves:scarf shoes:shoe toes:toe pies:pie ties:tie
    cookies:cookie movies:movie brownies:brownie smoothies:smoothie veggies:veggie
    pierogies:pierogi zombies:zombie selfies:selfie buses:bus tomatos:tomato potatos:potato
    axes:axe caches:cache""".split()
)


KNOWN_VERBS = VERBS | VERBS_AT_TIMES_NOUNS | NOUNS_AT_TIMES_VERBS
#: Stems that have lost an e: writ-ing, slic-ing, carv-ing, chang-ing.
_LOST_E = re.compile(r'([^aeiou][aeiu]t|iz|[aeo]s|[cvu]|[rdn]g)$')
_ADDS_ES = ('ches', 'shes', 'sses', 'xes', 'zes', 'oes')


class Form(NamedTuple):
    """A word read as a verb form: 'base', 's', 'ing' or 'ed'; it need not be a verb."""

    base: str
    name: Literal['base', 's', 'ing', 'ed']


def lemma(word: str, kind: Literal['VERB', 'NOUN']) -> str:
    """The dictionary form of a lower-cased word: 'slicing' -> 'slice', 'leaves' -> 'leaf'."""
    return verb_form(word).base if kind == 'VERB' else singular(word)


@cache
def verb_form(word: str) -> Form:
    """Return a lower-cased word as a verb form; an 's' form only of a known verb."""
    if word in IRREGULAR_VERBS:
        return Form(IRREGULAR_VERBS[word], 'ing' if word.endswith('ing') else 'ed')
    if word in KNOWN_VERBS or word in NOUNS:
        return Form(word, 'base')
    if word.endswith('ing') and len(word) > 4:
        return Form(_without('ing', word), 'ing')
    if word.endswith('ed') and not word.endswith('eed') and len(word) > 4:
        return Form(_without('ed', word), 'ed')
    if word.endswith('s'):
        stems = [word[:-1]]
        if word.endswith('es'):
            stems += [word[:-2], word[:-3] + 'y']
        known = [stem for stem in stems if stem in KNOWN_VERBS]
        return Form(known[0], 's') if known else Form(word, 'base')
    return Form(word, 'base')


@cache
def singular(noun: str) -> str:
    """Return a lower-cased noun without its plural ending."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    if noun in NOUNS or len(noun) < 4 or not noun.endswith('s'):
        return noun
    if noun.endswith(('ss', 'us', 'sis')):
        return noun
    if noun.endswith('ies'):
        return noun[:-3] + 'y'
    return noun[:-2] if noun.endswith(_ADDS_ES) else noun[:-1]


def _without(ending: str, word: str) -> str:
    """Return the base of a regular form: undouble letters, restore y or a lost e."""
    stem = word[: -len(ending)]
    doubled = len(stem) > 2 and stem[-1] == stem[-2]
    with_y = stem[:-1] + 'y' if ending == 'ed' and stem.endswith('i') else stem
    for base in (stem, stem + 'e', stem[:-1] if doubled else stem, with_y):
        if base in KNOWN_VERBS:
            return base
    if doubled and stem[-1] not in 'lsz':
        return stem[:-1]
    return stem + 'e' if _LOST_E.search(stem) else with_y
