// Positions of the tokens of a sequence that holds images or video frames: what the rotary embedding of the text model goes by.
// Text counts up in all three axes (time, height, width). Media that starts at s has s for time, s + row and s + column of its
// merged grid, and the text behind it goes on at s + max(rows, columns).
#ifndef NINFER_RUNTIME_VISION_POSITIONS_H
#define NINFER_RUNTIME_VISION_POSITIONS_H

#include <array>
#include <cstdint>
#include <vector>

namespace ninfer::vision {

class Positions {
public:
  /// `rows` x `columns` embeddings from token `first` on, which is at or behind the end of the media before.
  void append(int64_t first, int64_t rows, int64_t columns);
  /// Time, height and width position of token `token`.
  std::array<int32_t, 3> of(int64_t token) const;
  /// What a text position behind all media is ahead of its number in the sequence; usually negative.
  int64_t delta() const;

  bool empty() const { return media_.empty(); }
  /// First token whose position may not be its number.
  int64_t firstMedia() const { return media_.empty() ? INT64_MAX : media_.front().first; }
  /// The tokens [begin, end) of the media that a cut at `token` would split; empty when it splits none.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  Range splitBy(int64_t token) const;
  /// Forgets media from `token` on. One that the cut splits stays.
  void truncate(int64_t token);

private:
  struct Media {
    int64_t first, rows, columns;
    int64_t start; ///< its position
    int64_t end() const { return first + rows * columns; }
    int64_t next() const { return start + (rows > columns ? rows : columns); } ///< position of the text behind it
  };
  std::vector<Media> media_; ///< in order
};

} // namespace ninfer::vision

#endif // NINFER_RUNTIME_VISION_POSITIONS_H
